"""Datasets of what is in memory."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

import skate
from skate._core.argument_checks import shown
from skate._core.optional_imports import try_import
from skate.data._api.base import blocks_wanted, tasks_wanted
from skate.data._arrow.blocks import (
    Block,
    block_of_batch,
    block_of_pandas,
    block_of_rows,
    concat,
    unique_columns,
)
from skate.data._arrow.foreign import admitted, allows_pickle
from skate.data._arrow.plain_types import with_plain_types
from skate.data._arrow.tensors import column_of_array, to_array
from skate.data._execution.bundles import Bundle, bundle_of, even_bundles
from skate.data._plan import nodes as plan
from skate.data._settings.context import DataContext, driver_threads
from skate.data.dataset import Dataset, MaterializedDataset
from skate.data.sources.generated import Range

if TYPE_CHECKING:
    import pandas


_LARGEST = 2**63 - 1  # that a column of whole numbers holds


_OF_TABLES = {
    "dask": "from_dask",
    "pandas": "from_pandas",
    "polars": "from_polars",
    "pyarrow": "from_arrow",
}


def from_items(
    items: Iterable[object],
    *,
    parallelism: int = -1,
    override_num_blocks: int | None = None,
) -> MaterializedDataset:
    """Make a dataset of rows.

    Args:
        items: The rows: dictionaries, or plain values, which go into the column `item`, tensors
            included.
        parallelism: Ray's older name for `override_num_blocks`; -1 chooses.
        override_num_blocks: How many blocks, at most one per row; None chooses.

    Raises:
        TypeError: If these are no rows, or rows are of several kinds.

    Example:
        >>> skate.data.from_items([{"a": 1}, {"a": 2}]).take_all()
        [{'a': 1}, {'a': 2}]
    """
    maker = _OF_TABLES.get(type(items).__module__.partition(".")[0])
    if maker is not None and hasattr(items, "columns"):  # whose items are columns, or their names
        raise TypeError(
            f"from_items takes a list of rows; got a {type(items).__name__}, whose rows "
            f"{maker}() takes"
        )
    if isinstance(items, Mapping) or not isinstance(items, Iterable):
        raise TypeError(
            f"from_items takes a list of rows, such as [{{'a': 1}}, {{'a': 2}}]; got {items!r}"
        )
    rows = items if isinstance(items, list) else list(items)
    if rows and not any(row != {} if isinstance(row, dict) else True for row in rows):
        raise ValueError(f"the {len(rows)} rows have no columns; got {rows[0]!r}")
    wanted = blocks_wanted(parallelism, override_num_blocks) or 4 * driver_threads()
    return _of_blocks("FromItems", [block_of_rows(rows)], min(wanted, len(rows)))


def range(
    n: int,
    *,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Make a dataset of the numbers from 0 to n - 1, in the column `id`.

    Args:
        n: How many numbers.
        parallelism: Ray's older name for `override_num_blocks`; -1 chooses.
        concurrency: How many tasks at a time; None chooses.
        override_num_blocks: How many blocks; None chooses.

    Example:
        >>> skate.data.range(2).take_all()
        [{'id': 0}, {'id': 1}]
    """
    wanted = blocks_wanted(parallelism, override_num_blocks)
    return Dataset(plan.Read(Range(_number("range", n)), wanted, tasks_wanted(concurrency)))


def range_table(n: int, *, parallelism: int = -1) -> Dataset:
    """Make a dataset of the numbers from 0 to n - 1, in the column `value`, as until Ray 2.5.

    Args:
        n: How many numbers.
        parallelism: How many blocks; -1 chooses.
    """
    return range(n, parallelism=parallelism).rename_columns({"id": "value"})


def range_tensor(
    n: int,
    *,
    shape: Sequence[int] = (1,),
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> Dataset:
    """Make a dataset of tensors that are filled with 0, with 1 and so on, in the column `data`.

    Args:
        n: How many tensors.
        shape: Their shape.
        parallelism: Ray's older name for `override_num_blocks`; -1 chooses.
        concurrency: How many tasks at a time; None chooses.
        override_num_blocks: How many blocks; None chooses.

    Raises:
        TypeError: If `shape` is no list of whole numbers.

    Example:
        >>> skate.data.range_tensor(2, shape=(2,)).take_batch()["data"].tolist()
        [[0, 0], [1, 1]]
    """
    wanted = blocks_wanted(parallelism, override_num_blocks)
    given: Any = shape
    if not isinstance(given, Sequence) or not all(isinstance(size, int) for size in given):
        raise TypeError(f"range_tensor takes a shape such as (2, 3); got shape={shape!r}")
    length = _number("range_tensor", n)
    return Dataset(plan.Read(Range(length, tuple(shape)), wanted, tasks_wanted(concurrency)))


def from_numpy(ndarrays: object) -> MaterializedDataset:
    """Make a dataset of arrays, which are copied.

    Args:
        ndarrays: An array, one row per entry of its first axis, in the column `data`; several, one
            after the other; or a dictionary of arrays, in columns of these names.

    Raises:
        ValueError: If one of them is a single number.

    Example:
        >>> import numpy as np
        >>> skate.data.from_numpy(np.array([5, 6])).take_all()
        [{'data': 5}, {'data': 6}]
    """
    if isinstance(ndarrays, Mapping):
        columns = {name: np.array(to_array(array)) for name, array in ndarrays.items()}
        return _of_blocks("FromNumpy", [block_of_batch(columns)])
    arrays = ndarrays if isinstance(ndarrays, (list, tuple)) else [ndarrays]
    copies = [np.array(to_array(array)) for array in arrays]
    if any(copy.ndim == 0 for copy in copies):
        raise ValueError(
            f"from_numpy takes an array, or a list of arrays; got {shown(ndarrays)}: make one "
            "array of numbers, with np.array(numbers), or use from_items(numbers)"
        )
    blocks = [pa.table({"data": column_of_array(copy)}) for copy in copies]
    return _of_blocks("FromNumpy", blocks)


def from_numpy_refs(ndarrays: object) -> MaterializedDataset:
    """Make a dataset of arrays, as `from_numpy` does, of references to them.

    Args:
        ndarrays: A reference, or several.
    """
    return from_numpy(skate.get(_as_list(ndarrays)))


def from_pandas(
    dfs: pandas.DataFrame | Sequence[pandas.DataFrame], override_num_blocks: int | None = None
) -> MaterializedDataset:
    """Make a dataset of pandas frames, which are copied.

    Args:
        dfs: A frame, or several, one after the other.
        override_num_blocks: How many blocks; None makes one of each frame.

    Raises:
        ValueError: If a column's name is no text.

    Example:
        >>> import pandas as pd
        >>> skate.data.from_pandas(pd.DataFrame({"a": [1, 2]})).take_all()
        [{'a': 1}, {'a': 2}]
    """
    frames = list(dfs) if isinstance(dfs, (list, tuple)) else [dfs]
    return _of_blocks("FromPandas", [_copied(frame) for frame in frames], override_num_blocks)


def _copied(frame: object) -> Block:
    """Make a block of a frame whose memory stays the caller's."""
    if not hasattr(frame, "columns") or not hasattr(frame, "copy"):
        raise TypeError(f"from_pandas takes a DataFrame, or a list of them; got {frame!r}")
    if not all(isinstance(name, str) for name in frame.columns):
        raise ValueError(
            "a DataFrame with column names of non-str types is not supported; got the names "
            f"{list(frame.columns)!r}: frame.rename(columns=str) makes text of them"
        )
    return block_of_pandas(frame.copy())


def from_pandas_refs(dfs: object) -> MaterializedDataset:
    """Make a dataset of pandas frames, as `from_pandas` does, of references to them.

    Args:
        dfs: A reference, or several.
    """
    return from_pandas(skate.get(_as_list(dfs)))


def from_arrow(
    tables: object, *, override_num_blocks: int | None = None, allow_pickle: bool = False
) -> MaterializedDataset:
    """Make a dataset of Arrow tables.

    Args:
        tables: A table, or several, one after the other; each may be the bytes of Arrow's stream
            format.
        override_num_blocks: How many blocks; None makes one of each table.
        allow_pickle: As in `read_parquet`.

    Example:
        >>> import pyarrow as pa
        >>> skate.data.from_arrow(pa.table({"a": [1, 2]})).take_all()
        [{'a': 1}, {'a': 2}]
    """
    given = list(tables) if isinstance(tables, (list, tuple)) else [tables]
    trusted = allows_pickle(allow_pickle)
    blocks = [_block_of(table, trusted) for table in given]
    return _of_blocks("FromArrow", blocks, override_num_blocks)


def _block_of(table: Any, allow_pickle: bool) -> Block:
    if isinstance(table, bytes):
        table = pa.ipc.open_stream(table).read_all()
        table.validate(full=True)  # Arrow trusts the offsets in it, and reads what they point at
    table = unique_columns(table if isinstance(table, pa.Table) else pa.table(table))
    return admitted(table, "a table", allow_pickle)


def from_arrow_refs(tables: object) -> MaterializedDataset:
    """Make a dataset of references to Arrow tables, which are not fetched here.

    Args:
        tables: A reference, or several; to tables, or to the bytes of Arrow's stream format.
    """
    refs = _as_list(tables)
    measure, unpack = (skate.remote(each).options(num_cpus=0) for each in (_measure, _block_of))
    sizes = skate.get([measure.remote(ref) for ref in refs])
    if None in sizes:
        pairs, trusted = zip(refs, sizes, strict=True), allows_pickle(False)
        refs = [unpack.remote(ref, trusted) if size is None else ref for ref, size in pairs]
        sizes = skate.get([measure.remote(ref) for ref in refs])
    bundles = [Bundle(None, ref, *size) for ref, size in zip(refs, sizes, strict=True)]
    return MaterializedDataset(plan.Input(tuple(bundles), label="FromArrow"))


def _measure(table: Any) -> tuple[int, int] | None:
    return None if isinstance(table, bytes) else (table.num_rows, table.nbytes)


def from_polars(frames: Any, *, override_num_blocks: int | None = None) -> MaterializedDataset:
    """Make a dataset of frames of Polars; categories become plain text.

    Args:
        frames: A frame, or several, one after the other; lazy ones are computed.
        override_num_blocks: How many blocks; None makes one of each frame.

    Raises:
        TypeError: If these are no frames of Polars.
    """
    given = list(frames) if isinstance(frames, (list, tuple)) else [frames]
    blocks = []
    for frame in given:
        if hasattr(frame, "collect"):
            frame = frame.collect(engine="streaming")
        if not hasattr(frame, "to_arrow"):
            raise TypeError(
                f"from_polars takes a DataFrame or LazyFrame, or a list of them; got {frame!r}"
            )
        blocks.append(with_plain_types(unique_columns(frame.to_arrow()), dictionaries=True))
    return _of_blocks("FromPolars", blocks, override_num_blocks)


def from_daft(df: Any) -> MaterializedDataset:
    """Make a dataset of a frame of Daft, which is computed if it is not yet.

    Args:
        df: The frame.

    Raises:
        TypeError: If it is no frame of Daft.
    """
    if not (type(df).__module__.startswith("daft.") and hasattr(df, "to_arrow")):
        raise TypeError(f"from_daft takes a daft.DataFrame; got {df!r}")
    return _of_blocks("FromDaft", [with_plain_types(unique_columns(df.to_arrow()))], None)


def from_duckdb(
    relation: object, *, override_num_blocks: int | None = None
) -> MaterializedDataset:
    """Make a dataset of a relation of DuckDB, which computes it.

    The way back is `duckdb.sql("from dataset")`, which reads the variable of that name.

    Args:
        relation: The relation, such as `duckdb.sql("select ...")`.
        override_num_blocks: How many blocks; None makes one.

    Raises:
        TypeError: If it is no relation.
    """
    if not hasattr(relation, "to_arrow_table"):
        raise TypeError(
            f'from_duckdb takes a relation, such as duckdb.sql("select 1"); got {relation!r}'
        )
    table = with_plain_types(unique_columns(relation.to_arrow_table()), dictionaries=True)
    return _of_blocks("FromDuckDB", [table], override_num_blocks)


def sql(query: str, **datasets: Dataset) -> Dataset:
    """Run a query in Polars' SQL over datasets.

    Args:
        query: The query.
        **datasets: The tables, by the names that they have in the query.

    Returns:
        The result, computed when it is read.

    Example:
        >>> skate.data.sql("SELECT sum(id) AS total FROM t", t=skate.data.range(4)).take_all()
        [{'total': 6}]
    """
    from skate.data._relational.sql import queried

    return queried(query, datasets)


def from_blocks(blocks: Sequence[object]) -> MaterializedDataset:
    """Make a dataset of blocks as they are.

    Args:
        blocks: Arrow tables or pandas frames.
    """
    tables = [
        _block_of(b, allows_pickle(False)) if isinstance(b, pa.Table) else _copied(b)
        for b in blocks
    ]
    return MaterializedDataset(plan.Input(tuple(map(bundle_of, tables))))


def from_dask(df: Any) -> MaterializedDataset:
    """Make a dataset of a Dask DataFrame, which Dask computes.

    Args:
        df: The frame.
    """
    dask = try_import("dask", "data")
    return from_pandas(list(dask.compute(*df.to_delayed())))


def from_torch(dataset: object, local_read: bool = False) -> Dataset:
    """Make a dataset of a torch Dataset, one row per element.

    Args:
        dataset: A map-style dataset, or an IterableDataset, which is one stream. Elements that are
            dictionaries have their keys as columns, others are in the column `item`.
        local_read: Whether a map-style dataset is read in this process, and not by workers in
            parallel.

    Example:
        >>> import torch
        >>> pairs = torch.utils.data.TensorDataset(torch.tensor([1.0, 2.0]))
        >>> skate.data.from_torch(pairs).count()
        2
    """
    from skate.data.sources.torch import TorchSource

    return Dataset(plan.Read(TorchSource(dataset, local_read)))


def from_tf(dataset: Any) -> MaterializedDataset:
    """Make a dataset of the elements of a tf.data.Dataset.

    Args:
        dataset: The dataset, which is finite.
    """
    return from_items(list(dataset.as_numpy_iterator()))


class SeveralDatasetsError(ValueError, DeprecationWarning):
    """There are several where one is needed. Ray raises a DeprecationWarning for that."""


def from_huggingface(
    dataset: Any,
    *,
    parallelism: int = -1,
    concurrency: int | None = None,
    override_num_blocks: int | None = None,
) -> MaterializedDataset:
    """Make a dataset of a Dataset of Hugging Face, whose Arrow table is used as it is.

    Args:
        dataset: The dataset; an IterableDataset is read to its end, here and now.
        parallelism: Ray's older name for `override_num_blocks`; -1 chooses.
        concurrency: Without effect: there is nothing to be computed.
        override_num_blocks: How many blocks; None chooses.

    Raises:
        ValueError: If it is a DatasetDict, which holds several.
    """
    override_num_blocks = blocks_wanted(parallelism, override_num_blocks)
    if isinstance(dataset, dict):
        raise SeveralDatasetsError(
            "You provided a Hugging Face DatasetDict, which holds several datasets; pick one of "
            f"{list(dataset.keys())}"
        )
    if not hasattr(dataset, "with_format") or not hasattr(dataset, "data"):
        rows = dataset.with_format(None) if hasattr(dataset, "with_format") else dataset
        return from_items([dict(row) for row in rows], override_num_blocks=override_num_blocks)
    table = dataset.with_format("arrow")[:]
    return from_arrow(table, override_num_blocks=override_num_blocks)


def _of_blocks(
    label: str, blocks: Sequence[Block], count: int | None = None
) -> MaterializedDataset:
    """Make a dataset of blocks that are here. Large ones are cut, so that functions on them can
    run in parallel. A small one stays whole: without a batch size, a function is to see all of a
    frame that has a few rows. If a number is given, there are exactly so many, some without rows
    if there are fewer rows. Without any rows, one block is left, which knows the columns."""
    schema = blocks[0].schema if blocks else None
    total = sum(block.num_rows for block in blocks)
    bundles: list[Bundle] = []
    if blocks and (count or not total):
        whole = concat(blocks)
        bundles = list(even_bundles(whole, count or 1)) if total else []
        bundles += [bundle_of(whole.slice(0, 0))] * ((count or 1) - len(bundles))
        return MaterializedDataset(plan.Input(tuple(bundles), schema, label))
    least = DataContext.get_current().target_min_block_size
    for block in blocks:
        if block.num_rows:
            share = round(4 * driver_threads() * block.num_rows / total)
            bundles.extend(even_bundles(block, max(1, min(share, block.nbytes // least))))
    return MaterializedDataset(plan.Input(tuple(bundles), schema, label))


def _number(name: str, n: object) -> int:
    if not isinstance(n, (int, float, np.number)) or n != int(n):
        raise TypeError(f"{name} takes a whole number; got {n!r}")
    if n < 0:
        raise ValueError(f"{name} takes a number of at least 0; got {n}")
    if n > _LARGEST:
        raise ValueError(f"{name} takes a number of at most 2**63 - 1, as its rows do; got {n}")
    return int(n)


def _as_list(value: object) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


__all__ = [
    "from_arrow", "from_arrow_refs", "from_blocks", "from_daft", "from_dask", "from_duckdb",
    "from_huggingface", "from_items", "from_numpy", "from_numpy_refs", "from_pandas",
    "from_pandas_refs", "from_polars", "from_tf", "from_torch", "range", "range_table",
    "range_tensor", "sql",
]  # fmt: skip
