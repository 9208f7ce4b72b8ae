"""Dataset: rows and facts for the program that asks."""

from __future__ import annotations

import html
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pyarrow as pa

import skate
from skate._core.notebooks import html_table
from skate._core.optional_imports import try_import
from skate._core.plain_errors import methods_failing_plainly
from skate.data._api.base import Core, check_least
from skate.data._api.table_text import rows_shown, table_text
from skate.data._arrow.blocks import (
    Batch,
    Row,
    check_format,
    common_schema,
    detached,
    numpy_of,
    pandas_of,
    without_extensions,
)
from skate.data._arrow.schema import Schema
from skate.data._execution.batching import batch_from
from skate.data._execution.bundles import Bundle, BundleBuffer, table_of
from skate.data._execution.exchange import Union
from skate.data._execution.executor import execute
from skate.data._execution.stats import ExecutionStats
from skate.data._execution.transforms import SelectColumns
from skate.data._plan import nodes as plan
from skate.data._plan.explain import explanation
from skate.data._plan.optimizer import optimise
from skate.data._plan.static_schema import ROW_FOR_ROW, static_count, static_schema
from skate.data._relational.runs import totals_of
from skate.data.aggregate import AggregateFn, Count
from skate.data.sources.parquet import brought_to
from skate.exceptions import ObjectLostError

_ROWS_SHOWN = 5  # of a dataset in memory, in a notebook

if TYPE_CHECKING:
    import daft
    import pandas
    import polars

    from skate.data.dataset import Dataset, MaterializedDataset


def _alike(block: pa.Table, schema: pa.Schema) -> list[pa.RecordBatch]:
    """Return the rows in the columns and types of the schema, where those of a block differ."""
    if not block.schema.equals(schema):
        block = brought_to(block, schema, None)
    batches: list[pa.RecordBatch] = block.to_batches()
    return batches


class NoLengthError(TypeError, AttributeError):
    """Datasets have no length that is known. Ray raises an AttributeError."""


@methods_failing_plainly
class Consuming(Core):
    """These execute the plan."""

    # -- rows -----------------------------------------------------------------------------------

    def take(self, limit: int = 20) -> list[Row]:
        """Return the first rows, as dictionaries; plain values as they are.

        Args:
            limit: How many at the most. No more is computed than they need.

        Example:
            >>> skate.data.range(100).take(2)
            [{'id': 0}, {'id': 1}]
        """
        check_least("take", limit, 0)
        if not limit:
            return []
        first = self._first(limit)
        return list(first._rows())

    def _first(self, limit: int) -> Dataset:
        """Return the first rows. What their execution did is what `stats` of this dataset tells,
        unless it is in memory: then it goes on telling how it came there."""
        first = self._with(plan.Limit(self._plan, limit))
        first._stats = ExecutionStats()
        if self._stats is None or not isinstance(self._plan, plan.Input):
            self._stats = first._stats
        return first

    def take_all(self, limit: int | None = None) -> list[Row]:
        """Return all rows.

        Args:
            limit: How many there may be; None is any number.

        Raises:
            ValueError: If there are more than `limit`.

        Example:
            >>> skate.data.range(2).take_all()
            [{'id': 0}, {'id': 1}]
        """
        if limit is None:
            return list(self._rows())
        rows = self.take(limit + 1)
        if len(rows) > limit:
            raise ValueError(
                f"there are more rows than the limit, {limit}; raise it, or leave it out"
            )
        return rows

    def take_batch(self, batch_size: int = 20, *, batch_format: str | None = "default") -> Batch:
        """Return the first rows as one batch.

        Args:
            batch_size: How many rows at the most.
            batch_format: "numpy" (the default: a dictionary of arrays), "pandas" or "pyarrow".

        Raises:
            ValueError: If there are no rows.

        Example:
            >>> skate.data.range(100).take_batch(3)
            {'id': array([0, 1, 2])}
        """
        format_ = check_format(batch_format)
        first = self._first(batch_size)
        blocks = list(first._blocks())
        if not any(block.num_rows for block in blocks):
            raise ValueError("the dataset is empty: there is no batch to take")
        return batch_from(blocks, format_, self._shows_kept_blocks())

    def show(self, limit: int = 20) -> None:
        """Print the first rows.

        Args:
            limit: How many at the most.

        Example:
            >>> skate.data.range(100).show(2)
            {'id': 0}
            {'id': 1}
        """
        for row in self.take(limit):
            print(row)

    def to_pandas(self, limit: int | None = None) -> pandas.DataFrame:
        """Return all rows in one pandas frame.

        Args:
            limit: How many there may be; None is any number.

        Raises:
            ValueError: If there are more than `limit`.

        Example:
            >>> skate.data.range(3).to_pandas()["id"].tolist()
            [0, 1, 2]
        """
        if limit is None:
            return self._frame_of(table_of(self._bundles()))
        table = table_of(self._first(limit + 1)._bundles())
        if table.num_rows > limit:
            raise ValueError(
                f"there are more rows than the limit, {limit}; raise it, or leave it out"
            )
        return self._frame_of(table)

    def _frame_of(self, table: pa.Table) -> pandas.DataFrame:
        return pandas_of(detached(table) if self._shows_kept_blocks() else table)

    def to_polars(self) -> polars.DataFrame:
        """Return all rows in one frame of Polars; tensors are lists in it."""
        frames = try_import("polars", "data")
        table = without_extensions(table_of(self._bundles()))
        return frames.from_arrow(detached(table, "polars") if self._shows_kept_blocks() else table)

    def to_daft(self) -> daft.DataFrame:
        """Return all rows in one frame of Daft; tensors are lists in it."""
        frames = try_import("daft", "daft")
        return frames.from_arrow(without_extensions(table_of(self._bundles())))

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Execute, and hand the blocks one by one to another library (Arrow's PyCapsule protocol),
        such as `polars.from_arrow(dataset)`, or `duckdb.sql("from dataset")`."""
        known = self.schema()
        schema = pa.schema([]) if known is None else known.base_schema
        batches = (batch for block in self._blocks() for batch in _alike(block, schema))
        return pa.RecordBatchReader.from_batches(schema, batches).__arrow_c_stream__(
            requested_schema
        )

    def to_arrow_refs(self) -> list[skate.ObjectRef[pa.Table]]:
        """Return references to the blocks, as Arrow tables."""
        return [bundle.stored().ref for bundle in self._bundles()]  # type: ignore[misc]

    def to_pandas_refs(self) -> list[skate.ObjectRef[pandas.DataFrame]]:
        """Return references to the blocks, as pandas frames."""
        return [skate.put(pandas_of(block)) for block in self._blocks()]

    def to_numpy_refs(self, *, column: str | None = None) -> list[skate.ObjectRef[Any]]:
        """Return references to the blocks, as arrays.

        Args:
            column: One column; None is all, in a dictionary.

        Returns:
            References to dictionaries of arrays, or to the array of the one column.
        """
        if column is None:
            return [skate.put(numpy_of(block)) for block in self._blocks()]
        chosen = self._mapped(SelectColumns((column,)), f"SelectColumns({[column]})")
        return [skate.put(numpy_of(block)[column]) for block in chosen._blocks()]

    def materialize(self) -> MaterializedDataset:
        """Execute now, and keep the rows; beyond a share of memory, in the object store.

        Returns:
            A dataset whose rows are computed already.

        Example:
            >>> skate.data.range(3).materialize()
            shape: (3, 1)
            ╭───────╮
            │ id    │
            │ ---   │
            │ int64 │
            ╞═══════╡
            │ 0     │
            │ 1     │
            │ 2     │
            ╰───────╯
            (Showing 3 of 3 rows)
        """
        from skate.data.dataset import MaterializedDataset

        bundles = self._kept_bundles()
        schema = self.schema() if not bundles else None
        arrow = schema.base_schema if schema is not None else None
        node = plan.Input(tuple(bundles), arrow, self._plan.name, tuple(self.input_files()))
        done = MaterializedDataset(node, self._context.copy())
        done._stats = self._stats
        done._name = self._name
        return done

    def _kept_bundles(self) -> list[Bundle]:
        """Execute now; beyond a share of memory, rows are in the object store."""
        buffer = BundleBuffer(self._context.sort_memory_bytes)
        for bundle in self._bundles():
            buffer.add(bundle)
        return buffer.bundles

    # -- facts ----------------------------------------------------------------------------------

    def count(self) -> int:
        """Return the number of rows; from the sources alone where they know it.

        Example:
            >>> skate.data.range(100).count()
            100
        """
        node = self._plan
        while isinstance(node, plan.Map) and isinstance(node.step, ROW_FOR_ROW):
            node = node.input
        if isinstance(node, plan.Read):
            known = node.source.count()
            if known is not None:
                return known
        counted = self._with(node)._totals([Count()])
        if counted is not None:
            return int(counted[0])
        return sum(bundle.rows for bundle in execute(node, self._context))

    def _totals(self, functions: Sequence[AggregateFn]) -> list[Any] | None:
        """Compute aggregations of all rows, if those are in files that Polars reads."""
        stats = ExecutionStats()
        found = totals_of(self._plan, functions, self._context)
        if found is not None:
            stats.finish()
            stats.stage("Aggregate", "driver").add(1, 0, stats.wall_seconds or 0.0)
            self._stats = stats
        return found

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """Return the names and types of the columns; None if they are not known.

        Args:
            fetch_if_missing: Whether the first row is computed if there is no other way.

        Example:
            >>> skate.data.range(3).schema()
            Column  Type
            ------  ----
            id      int64
        """
        if self._known_schema is None:
            self._known_schema = static_schema(optimise(self._plan))
        if self._known_schema is None and isinstance(self._plan, Union):
            self._known_schema = self._common_schema(fetch_if_missing)
        if self._known_schema is None and fetch_if_missing:
            first = next(execute(plan.Limit(self._plan, 1), self._context), None)
            self._known_schema = first.get().schema if first is not None else None
        if self._known_schema is None:
            return None
        if not self._known_schema.names and not _selects_nothing(self._plan):
            return None
        return Schema(self._known_schema)

    def _common_schema(self, fetch_if_missing: bool) -> pa.Schema | None:
        """Find the schema of several datasets one after the other."""
        found = [self._with(part).schema(fetch_if_missing) for part in self._plan.inputs]
        known = [schema.base_schema for schema in found if schema is not None]
        if not known or (len(known) < len(found) and not fetch_if_missing):
            return None
        return common_schema(known)

    def columns(self, fetch_if_missing: bool = True) -> list[str] | None:
        """Return the names of the columns; None if they are not known.

        Args:
            fetch_if_missing: Whether the first row is computed if there is no other way.

        Example:
            >>> skate.data.from_items([{"a": 1, "b": 2}]).columns()
            ['a', 'b']
        """
        schema = self.schema(fetch_if_missing)
        return None if schema is None else schema.names

    def size_bytes(self) -> int:
        """Return how many bytes all rows have in memory."""
        return sum(bundle.size for bundle in execute(self._plan, self._context))

    def num_blocks(self) -> int:
        """Return how many blocks there are.

        Raises:
            NotImplementedError: If the dataset is not materialised: before, that is not known.
        """
        if isinstance(self._plan, plan.Input):
            return len(self._plan.bundles)
        raise NotImplementedError("the number of blocks is known after materialize()")

    def input_files(self) -> list[str]:
        """Return the paths of the files that the dataset is read from."""
        found: dict[str, None] = {}
        todo = [self._plan]
        while todo:
            node = todo.pop()
            todo.extend(node.inputs)
            if isinstance(node, plan.Read):
                found.update(dict.fromkeys(node.source.files()))
            elif isinstance(node, plan.Input):
                found.update(dict.fromkeys(node.files))
        return list(found)

    def stats(self) -> str:
        """Return what the last execution did: per operator, the blocks, rows, bytes and times.

        Looking at the first rows of a dataset in memory is none.
        It is empty before the first, which `take`, `iter_batches`, `materialize` and the like are.
        """
        return "" if self._stats is None else str(self._stats)

    # -- as text --------------------------------------------------------------------------------

    def explain(self) -> None:
        """Print the plan as written, as optimised, and in the stages in which it runs."""
        print(explanation(self._plan))

    def __repr__(self) -> str:
        schema = self.schema(fetch_if_missing=False)
        if schema is None and (stored := _stored_schema(self._plan)) is not None:
            schema = Schema(stored)
        if schema is None or not schema.names:
            return self._tree(self._plan)
        count = static_count(self._plan)
        size = f"shape: ({'?' if count is None else count}, {len(schema.names)})"
        head = f"name: {self._name}\n{size}" if self._name else size
        if not isinstance(self._plan, plan.Input):
            return f"{head}\n{table_text(schema, ())}\n(Dataset isn't materialized)"
        bundles = self._plan.bundles if self._is_in_memory() else ()
        shown = rows_shown(sum(bundle.rows for bundle in bundles))
        return f"{head}\n{table_text(schema, bundles)}\n(Showing {shown} of {count} rows)"

    def _tree(self, node: plan.Node) -> str:
        """Write the operations down to what has rows, as text."""
        if isinstance(node, (plan.Read, plan.Input)):
            return self._source_text(node)
        lines = [node.name]
        for child in node.inputs:
            first, *rest = self._tree(child).split("\n")
            lines += [f"+- {first}", *(f"   {line}" for line in rest)]
        return "\n".join(lines)

    def _source_text(self, node: plan.Node) -> str:
        schema, rows = static_schema(node) or _stored_schema(node), static_count(node)
        name = f"name={self._name}, " if self._name else ""
        text = Schema(schema).short() if schema is not None else "Unknown schema"
        kind = type(self).__name__ if node is self._plan else "Dataset"
        if kind == "MaterializedDataset" and isinstance(node, plan.Input):
            name += f"num_blocks={len(node.bundles)}, "
        return f"{kind}({name}num_rows={'?' if rows is None else rows}, schema={text})"

    def _repr_html_(self) -> str:
        schema = self.schema(fetch_if_missing=False)
        table = schema._repr_html_() if schema is not None else ""
        rows = html_table(self.take(_ROWS_SHOWN)) if self._is_in_memory() else ""
        return f"<pre>{html.escape(self._tree(self._plan))}</pre>{table}{rows}"

    def _is_in_memory(self) -> bool:
        """Return whether rows can be shown without computing anything, and are not lost."""
        if not isinstance(self._plan, plan.Input) or not self._plan.bundles:
            return False
        ends = [self._plan.bundles[0], self._plan.bundles[-1]]
        if all(bundle.block is not None for bundle in ends):
            return True
        with suppress(ObjectLostError):
            return skate.is_initialized() and all(bundle.get() is not None for bundle in ends)
        return False

    def __bool__(self) -> bool:
        """Return True: `if dataset:` asks whether there is one, not whether it has rows."""
        return True

    def __len__(self) -> int:
        raise NoLengthError("a dataset has no len(): count() computes the number of rows")

    def __iter__(self) -> Any:
        raise TypeError("iterate over a dataset with iter_rows() or iter_batches()")

    def __getitem__(self, key: object) -> object:
        raise TypeError(
            f"a dataset has no [{key!r}]: select_columns() and filter() choose columns and rows, "
            "take(n) returns the first rows"
        )


def _selects_nothing(node: plan.Node) -> bool:
    """Return whether the rows have no columns because none was wanted."""
    if isinstance(node, plan.Map):
        return isinstance(node.step, SelectColumns) and not node.step.columns
    return isinstance(node, plan.Read)


def _stored_schema(node: plan.Node) -> pa.Schema | None:
    """Return the schema of the first rows of what is materialized, unless they went with their
    session."""
    bundles = node.bundles if isinstance(node, plan.Input) else ()
    first = next((bundle for bundle in bundles if bundle.rows), None)
    if first is None or not skate.is_initialized():
        return None
    with suppress(ObjectLostError):
        return first.get().schema
    return None
