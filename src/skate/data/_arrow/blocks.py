"""Blocks: a piece of a dataset as an Arrow table, and the forms in which users see it.

Plain values (rows that are not dictionaries) live in one column called `item`, in a table marked
by its metadata; reading rows back gives the plain values again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data._arrow.dictionaries import with_one_dictionary
from skate.data._arrow.plain_types import with_plain_types
from skate.data._arrow.tensors import (
    column_of_array,
    column_of_values,
    column_to_numpy,
    column_to_rows,
    is_array,
    is_fixed_tensor,
    is_object,
    is_tensor,
    lists_of,
    nested_lists,
    objects_of_pickles,
    to_array,
    unify,
)
from skate.data._arrow.type_kinds import is_kind
from skate.data._arrow.undecodable import undecodable_in

if TYPE_CHECKING:
    import pandas
    import pandas as pd

    from skate._core.arrays import Array
    from skate.data._arrow.pandas_tensors import TensorArray

Block: TypeAlias = pa.Table
Batch: TypeAlias = Any  # a dictionary of arrays, a pandas or polars frame, or an Arrow table
Row: TypeAlias = dict[str, Any]
Column: TypeAlias = pa.Array | pa.ChunkedArray

PLAIN = "item"
_MARK = {b"skate.plain": b"1"}
_OWN_MARK = {b"skate.own": b"1"}
FORMATS = ("numpy", "pandas", "pyarrow", "polars")
DEFAULT_FORMATS = ("default", "native")


# -- rows ---------------------------------------------------------------------------------------


def block_of_rows(rows: Sequence[Any]) -> Block:
    """Make a block of rows, which are dictionaries or plain values."""
    if not rows:
        return pa.table({})
    if not isinstance(rows[0], Mapping):
        return plain_block(rows)
    names = list(rows[0])
    try:
        columns = {name: [row[name] for row in rows] for name in names}
        if all(len(row) == len(names) for row in rows):
            return _table({name: column_of_values(values) for name, values in columns.items()})
    except (KeyError, TypeError):
        pass
    return _table({name: column_of_values(v) for name, v in _ragged_rows(rows).items()})


def _ragged_rows(rows: Sequence[Any]) -> dict[str, list[object]]:
    """Collect the columns of rows that do not all have the same keys: what is absent is None."""
    for row in rows:
        if not isinstance(row, Mapping):
            raise TypeError(
                f"rows are all dictionaries or all plain values; got both: {rows[0]!r} and {row!r}"
            )
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def plain_block(values: Sequence[object]) -> Block:
    """Make a block of values that are not dictionaries."""
    return mark_plain(_table({PLAIN: column_of_values(values)}))


def mark_plain(block: Block) -> Block:
    return block.replace_schema_metadata({**(block.schema.metadata or {}), **_MARK})


def is_plain(schema: pa.Schema | None) -> bool:
    """Return whether rows of this schema are plain values."""
    return (
        schema is not None
        and schema.names == [PLAIN]
        and b"skate.plain" in (schema.metadata or {})
    )


def mark_own(block: Block) -> Block:
    """Mark the block as one whose memory is nobody else's; so are its slices, but not what it
    becomes a part of."""
    return block.replace_schema_metadata({**(block.schema.metadata or {}), **_OWN_MARK})


def is_own(block: Block) -> bool:
    """Return whether numbers of the block may be written to where they are: it is marked, or a
    slice of one that is, and not put together of several."""
    marked = (block.schema.metadata or {}).keys() >= _OWN_MARK.keys()
    return marked and all(column.num_chunks == 1 for column in block.columns)


def rows_of(block: Block, plain: bool = True) -> Iterator[Row]:
    """Iterate over the rows, as dictionaries; plain values as they are, or under `item` without
    `plain`."""
    try:
        columns = [column_to_rows(column) for column in block.columns]
    except UnicodeDecodeError as error:
        raise undecodable_in(block) or error from error
    if plain and is_plain(block.schema):
        return iter(columns[0])
    names = block.column_names
    if not names:
        return ({} for _ in range(block.num_rows))
    return (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))


# -- batches ------------------------------------------------------------------------------------


def check_format(batch_format: str | None) -> str:
    """Return the format under its plain name. None means no conversion: Arrow."""
    if batch_format is None:
        return "pyarrow"
    if batch_format in DEFAULT_FORMATS:
        return "numpy"
    if batch_format not in FORMATS:
        raise ValueError(
            f"batch_format takes {', '.join(map(repr, FORMATS))} or None; got {batch_format!r}"
        )
    return batch_format


def batch_of(block: Block, batch_format: str) -> Batch:
    """Convert the block to a format of FORMATS."""
    if batch_format == "numpy":
        return numpy_of(block)
    if batch_format == "pandas":
        return pandas_of(block)
    if batch_format == "polars":
        polars = try_import("polars", "data")
        return polars.from_arrow(without_extensions(block))
    return block


def numpy_of(block: Block, writable: bool = False) -> dict[str, Array]:
    """Convert the columns to arrays, views where possible; `writable` as in `column_to_numpy`."""
    names = block.column_names
    try:
        return {name: column_to_numpy(block.column(i), writable) for i, name in enumerate(names)}
    except (UnicodeDecodeError, pa.ArrowException) as error:
        raise undecodable_in(block) or error from error


def pandas_of(block: Block) -> pandas.DataFrame:
    """Convert the block to a frame; each tensor is an array in a cell, or a column of them a
    `TensorArray` if the settings say so."""
    pandas = try_import("pandas", "data")
    special = [f.name for f in block.schema if is_tensor(f.type) or is_object(f.type)]
    frame = block.drop_columns(special).to_pandas() if special else block.to_pandas()
    if not special:
        return frame
    parts = {
        name: pandas.Series(_cells(block[name]), index=range(len(block)))
        if name in special
        else frame[name]
        for name in block.column_names
    }
    return pandas.DataFrame(parts, columns=block.column_names)


def _cells(column: pa.ChunkedArray) -> Array | TensorArray:
    from skate.data._settings.context import DataContext  # which imports pieces of this package

    if is_tensor(column.type) and not DataContext.get_current().enable_tensor_extension_casting:
        from skate.data._arrow.pandas_tensors import TensorArray

        return TensorArray(column_to_numpy(column))
    cells = np.empty(len(column), object)
    for number, value in enumerate(column_to_rows(column)):
        cells[number] = value
    return cells


def without_extensions(block: Block) -> Block:
    """Turn tensors into lists, for libraries and files that know no extension types."""
    for number, field in enumerate(block.schema):
        if is_fixed_tensor(field.type):
            column = nested_lists(block.column(number))
        elif is_tensor(field.type) or is_object(field.type):
            values = [
                value.tolist() if is_array(value) else value
                for value in column_to_rows(block.column(number))
            ]
            kind = (
                lists_of(field.type.value_type, field.type.ndim) if is_tensor(field.type) else None
            )
            column = pa.chunked_array([pa.array(values, kind)])
        else:
            continue
        block = block.set_column(number, field.name, column)
    return block


def block_of_batch(batch: Batch, before: Block | None = None) -> Block:
    """Make a block of what a function on batches gave back.

    Args:
        batch: The batch.
        before: The block that it was made of, for types which pandas does not have.
    """
    if isinstance(batch, pa.Table):
        return with_plain_types(unique_columns(batch))
    if isinstance(batch, Mapping):
        return _block_of_mapping(batch)
    if isinstance(batch, pa.RecordBatch):
        return with_plain_types(pa.Table.from_batches([batch]))
    kind = type(batch).__module__.partition(".")[0]
    if kind == "pandas" and hasattr(batch, "columns"):
        return block_of_pandas(batch, before)
    if kind == "polars" and hasattr(batch, "to_arrow"):
        return with_plain_types(batch.to_arrow())
    if isinstance(batch, list):
        return plain_block(batch)
    if is_array(batch):
        return mark_plain(_table({PLAIN: column_of_array(to_array(batch))}))
    raise ValueError(
        "a batch is a dictionary of arrays, a pandas or polars DataFrame, a pyarrow Table, or a "
        f"list of values; the function returned {_short(batch)} of type {type(batch).__name__}"
    )


def _block_of_mapping(batch: Mapping[str, object]) -> Block:
    columns = {name: _column(name, value) for name, value in batch.items()}
    lengths = {name: len(column) for name, column in columns.items()}
    if len(set(lengths.values())) > 1:
        raise ValueError(
            f"the columns of a batch differ in length: {lengths}; a batch has as many values in "
            "each column"
        )
    return _table(columns)


def _column(name: str, value: Any) -> Column:
    if isinstance(value, np.ndarray) and value.ndim:
        return column_of_array(value)
    if isinstance(value, (pa.Array, pa.ChunkedArray)):
        return value
    if isinstance(value, (list, tuple)):
        return column_of_values(value)
    kind = type(value).__module__.partition(".")[0]
    if kind == "pandas":
        return _column_of_series(value)
    if is_array(value) and len(value.shape):
        return column_of_array(to_array(value))
    raise ValueError(
        f"column {name!r} of a batch must be an array or a list with one entry per row; "
        f"got {_short(value)} of type {type(value).__name__}"
    )


_MOST_TEXT = 2**31  # bytes of one column of strings


def block_of_pandas(frame: pd.DataFrame, before: Block | None = None) -> Block:
    """Make a block of a frame; `before` is what the frame was made of, if that is known."""
    check_unique([str(name) for name in frame.columns])
    known = {} if before is None else dict(zip(before.column_names, before.columns, strict=True))
    columns = {name: _column_of_series(frame[name], known.get(name)) for name in frame.columns}
    return _table({str(name): column for name, column in columns.items()})


def _column_of_series(series: pd.Series, before: Column | None = None) -> Column:
    if (
        type(series.dtype).__name__ == "NumpyEADtype"
    ):  # NumPy's, wrapped: Arrow does not look inside
        series = series.astype(series.dtype.numpy_dtype)
    if before is not None:
        whole = _whole_again(series, before)
        if whole is not None:
            return whole
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            if _is_of_lists(series, before):
                return pa.Array.from_pandas(series, type=before.type)
    if series.dtype == object:
        values = list(series)
        first = next((value for value in values if value is not None), None)
        if is_array(first) or not isinstance(first, (str, bytes, float)):
            missing = series.isna() if not is_array(first) else None
            if missing is not None and missing.any():
                values = [None if gone else v for v, gone in zip(values, missing, strict=True)]
            return column_of_values(values)
    column = pa.Array.from_pandas(series)
    column = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kept = before is not None and pa.types.is_large_string(before.type)
    return column if kept else _plain_text(column, series)


def _plain_text(column: pa.Array, series: pd.Series) -> pa.Array:
    """Cast text of pandas' own type to that of other sources, whose offsets are of 32 bits. That
    of a column of Arrow's types stays as it is, and so does text which is too long for them."""
    is_pandas_text = type(series.dtype).__name__ == "StringDtype"
    if is_pandas_text and pa.types.is_large_string(column.type) and column.nbytes < _MOST_TEXT:
        return column.cast(pa.string())
    return column


def _whole_again(series: pd.Series, before: Column) -> Column | None:
    """Return the whole numbers, some of them missing, of which pandas has made fractions; None if
    there were none, or these are not the same numbers, by the labels of their rows."""
    if not (before.null_count and pa.types.is_integer(before.type)):
        return None
    places = series.index.to_numpy()
    if series.dtype != np.float64 or places.dtype.kind not in "iu":
        return None
    if len(places) and not 0 <= places.min() <= places.max() < len(before):
        return None
    fractions = before.to_numpy(zero_copy_only=False)
    same = np.array_equal(series.to_numpy(), fractions[places], equal_nan=True)
    return before.take(pa.array(places)) if same else None


def _is_of_lists(series: pd.Series, before: Column) -> bool:
    """Return whether these may be lists of the former type, for which pandas has arrays."""
    if series.dtype != object or not is_kind(before.type, "list"):
        return False
    first = next((value for value in series if value is not None), None)
    if not isinstance(first, np.ndarray) or first.ndim != 1:
        return False
    return first.dtype == object or bool(
        pa.from_numpy_dtype(first.dtype) == before.type.value_type
    )


def _table(columns: Mapping[str, Column]) -> Block:
    return pa.Table.from_arrays(list(columns.values()), names=[str(name) for name in columns])


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


# -- several blocks -----------------------------------------------------------------------------


def concat(blocks: Sequence[Block]) -> Block:
    """Join blocks into one, without copying where the schemas agree; otherwise columns are unified
    and absent ones filled with None."""
    filled = [block for block in blocks if block.num_rows] or list(blocks[:1])
    if not filled:
        return pa.table({})
    if len(filled) == 1:
        return filled[0]
    return _unified(filled)


def common_schema(schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Find the schema of the rows of several datasets one after the other."""
    return _unified([schema.empty_table() for schema in schemas]).schema


def _unified(blocks: Sequence[Block]) -> Block:
    schema = blocks[0].schema
    if all(block.schema.equals(schema) for block in blocks[1:]):
        return with_one_dictionary(pa.concat_tables(blocks))
    # Looked up by name: pivots have thousands of columns, no two blocks of them the same ones.
    columns = [dict(zip(block.column_names, block.columns, strict=True)) for block in blocks]
    absent = [pa.chunked_array([pa.nulls(len(block))]) for block in blocks]
    names = dict.fromkeys(name for block in columns for name in block)
    unified = {name: unify(_stacked(columns, absent, name), name) for name in names}
    table = with_one_dictionary(_table(unified))
    return mark_plain(table) if all(is_plain(block.schema) for block in blocks) else table


def _stacked(
    blocks: Sequence[Mapping[str, pa.ChunkedArray]], absent: Sequence[pa.ChunkedArray], name: str
) -> list[pa.ChunkedArray]:
    return [block.get(name, nulls) for block, nulls in zip(blocks, absent, strict=True)]


def compact(block: Block) -> Block:
    """Make a block that owns no more memory than it shows: a slice would travel with the whole."""
    if block.num_rows == 0:
        return block.schema.empty_table() if block.num_columns else block
    if any(column.num_chunks > 1 for column in block.columns):
        block = block.combine_chunks()
    if block.get_total_buffer_size() <= block.nbytes * 1.2 + 4096:
        return block
    return _copied(block)


def _copied(block: Block) -> Block:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema) as writer:
        writer.write_table(block)
    return _with_objects(pa.ipc.open_stream(sink.getvalue()).read_all(), block.schema)


def _with_objects(table: pa.Table, schema: pa.Schema) -> Block:
    """Restore the columns of objects in a table, of which Arrow keeps the pickles only."""
    if table.schema.equals(schema):
        return table
    columns = [
        objects_of_pickles(column) if is_object(type_) else column
        for column, type_ in zip(table.columns, schema.types, strict=True)
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def detached(block: Block, batch_format: str = "rows") -> Block:
    """Copy the block if rows or frames made of it would be views on it. Arrays say that they are
    not to be written to, but torch does not ask them."""
    shows = batch_format == "polars" or any(map(_is_array_type, block.schema.types))
    return _copied(block) if shows else block


def _is_array_type(type_: pa.DataType) -> bool:
    is_list = pa.types.is_list(type_) or pa.types.is_large_list(type_)
    return is_tensor(type_) or is_list or pa.types.is_fixed_size_list(type_)


def detached_arrays(batch: dict[str, Array]) -> dict[str, Array]:
    """Copy those arrays of a batch that are views on its block."""
    return {name: _detached_array(array) for name, array in batch.items()}


def _detached_array(array: Array) -> Array:
    if array.dtype.kind != "O":
        return array if array.flags.writeable else array.copy()
    if not isinstance(next((cell for cell in array if cell is not None), None), np.ndarray):
        return array
    cells = np.empty(len(array), object)
    for place, cell in enumerate(array):
        cells[place] = cell.copy() if isinstance(cell, np.ndarray) else cell
    return cells


class MissingColumnError(KeyError, ValueError):
    """There is no such column. Ray raises a KeyError in some places and a ValueError in others."""

    __module__ = "skate.data.exceptions"  # where programs find it

    def __str__(self) -> str:
        return str(self.args[0])


def missing_column(name: str, names: Sequence[str]) -> MissingColumnError:
    """Make the error for a column that is not there, with the nearest name that is."""
    from skate._core.nearest import nearest_names

    near = nearest_names(name, names, 1)
    hint = f"; did you mean {near[0]!r}?" if near else ""
    return MissingColumnError(
        f"there's no such column in the dataset: {name!r}; the columns are {list(names)}{hint}"
    )


def check_unique(names: Sequence[str]) -> None:
    """Raise if two columns have one name: one of them could not be reached by it."""
    if len(set(names)) < len(names):
        twice = [name for name, count in Counter(names).items() if count > 1]
        raise ValueError(
            f"several columns are called {', '.join(map(repr, twice))}; the columns are "
            f"{list(names)}; give each a name of its own"
        )


def unique_columns(block: Block) -> Block:
    check_unique(block.column_names)
    return block


def check_columns(wanted: Sequence[str], names: Sequence[str]) -> None:
    for name in wanted:
        if name not in names:
            raise missing_column(name, names)
