"""`groupby`: groups of rows with equal keys."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import pyarrow as pa

from skate._core.signature import showing_keywords
from skate.data import aggregate as agg
from skate.data._aggregates.base import unfit
from skate.data._api.step_keywords import STEP, StepKeywords
from skate.data._arrow.blocks import (
    DEFAULT_FORMATS,
    Block,
    batch_of,
    block_of_rows,
    check_columns,
    check_format,
    concat,
)
from skate.data._arrow.compute import pc
from skate.data._arrow.dictionaries import without_dictionary
from skate.data._arrow.sorting import sort_table
from skate.data._execution.bundles import Bundle, BundleBuffer, bundle_of, table_of
from skate.data._execution.dividing import Division, Undivided
from skate.data._execution.exchange import Repartition, beside, by_engine, by_ranges
from skate.data._execution.partitions import Divisions, Gathering, Side
from skate.data._execution.transforms import (
    blame,
    block_limit,
    check_named,
    copied,
    joined,
    portions,
)
from skate.data._execution.udf import FunctionError, UserFunction
from skate.data._expressions.expression import Expr
from skate.data._expressions.steps import set_column
from skate.data._settings.context import driver_threads

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate._core.arrays import Array
    from skate.data.dataset import Dataset


def group_starts(table: Block, keys: Sequence[str]) -> Array:
    """Find where groups begin in a table sorted by the keys; the last is the number of rows."""
    changed = np.zeros(table.num_rows + 1, bool)
    changed[[0, -1]] = True
    for key in keys:
        codes = without_dictionary(table[key]).combine_chunks()
        codes = pc.dictionary_encode(codes, null_encoding="encode").indices.to_numpy()
        changed[1:-1] |= codes[1:] != codes[:-1]
    return np.flatnonzero(changed)


def groups_of(table: Block, keys: Sequence[str]) -> Iterator[Block]:
    """Yield the groups, in the order of their keys."""
    if not keys:
        yield from [table] if table.num_rows else []
        return
    ordered = sort_table(table, [(key, "ascending") for key in keys])
    starts = group_starts(ordered, keys) if ordered.num_rows else [0]
    for start, stop in pairwise(starts):
        yield ordered.slice(start, stop - start)


@dataclass(frozen=True, eq=False)
class Grouping(Gathering):
    """An operation on groups, in the order of their keys. Without keys, all rows are one."""

    keys: tuple[str, ...] = ()

    @property
    def sampled(self) -> tuple[str, ...]:
        return self.keys

    @property
    def order(self) -> list[tuple[str, str]]:
        return [(key, "ascending") for key in self.keys]

    def in_memory(self, inputs: Sequence[BundleBuffer]) -> Iterator[Bundle]:
        (buffer,) = inputs
        table = table_of(buffer.bundles)
        if table.num_columns:
            yield from self.cut(self.of_tables([table]), self.blocks_of_parts(1))

    def divisions(self, sides: Sequence[Side], parts: int) -> Divisions:
        if self.keys:
            return by_ranges(sides[0], self.order, parts, self.blocks_of_parts(parts))
        return Divisions([[self.undivided()] * len(sides[0].groups)], [1])

    def undivided(self) -> Division:
        """Return what becomes of the rows of each task, if all of them are one group."""
        return Undivided()

    def blocks_of_parts(self, parts: int) -> int:
        """Return in how many blocks the result of each part is."""
        return 1


@dataclass(frozen=True, eq=False)
class Aggregate(Grouping):
    """One row per group."""

    functions: tuple[agg.AggregateFn, ...] = ()

    def schema_of(self, inputs: Sequence[pa.Schema]) -> pa.Schema | None:
        if any(function.arrow() is None for function in self.functions):
            return None  # results are Python's objects
        return self.all_groups(inputs[0].empty_table()).schema

    def of_tables(self, tables: Sequence[Block], part: int = 0) -> Block:
        return self.all_groups(tables[0])

    def undivided(self) -> Division:
        return IntoStates(self.functions)

    def finished(self, tables: Sequence[Block], part: int) -> Block:
        if not self.keys:
            return result_of_states(tables[0], self.functions)
        return by_engine(self, tables)

    def all_groups(self, table: Block) -> Block:
        """Return the groups of rows that are all here, in the order of their keys."""
        check_columns(self.keys, table.column_names)
        groups = self.table_of_groups(table)
        return sort_table(groups, self.order) if self.keys else groups

    def table_of_groups(self, table: Block) -> Block:
        """Return the groups of a table, in any order."""
        on = [f.on for f in self.functions if isinstance(f, agg.AggregateFnV2) and f.on]
        check_columns(on, table.column_names)
        kernels = [function.arrow() for function in self.functions]
        if all(kernel is not None for kernel in kernels):
            return self._by_kernels(table, kernels)
        return self._by_states(table)

    def _by_kernels(self, table: Block, kernels: list[Any]) -> Block:
        own = (f for f in self.functions if isinstance(f, agg.AggregateFnV2))
        counted = [f for f in own if f.needs_counts]
        counts = [(f.on, "count", pc.CountOptions("only_valid")) for f in counted]
        kernels = [*kernels, *counts]
        wanted = [column for column, _, _ in kernels if isinstance(column, str)]
        table = table.select(list(dict.fromkeys([*self.keys, *wanted])))
        unknown = {field.name for field in table.schema if pa.types.is_null(field.type)}
        for name in unknown - set(self.keys):  # whose type is open: Arrow aggregates numbers
            table = set_column(table, name, pa.nulls(len(table), pa.float64()))
        try:
            result = table.group_by(list(self.keys)).aggregate(kernels)
        except pa.ArrowNotImplementedError:
            what = f"{', '.join(f.name for f in self.functions)} by {list(self.keys)}"
            raise unfit(what, table.column_names, table) from None
        names = [f"{column}_{kernel}" if column else kernel for column, kernel, _ in kernels]
        # Two aggregations of one column and kernel have the same name; they come in order.
        found = [result.column(place) for place in _places(result.column_names, names)]
        extra = dict(zip(map(id, counted), found[len(self.functions) :], strict=True))
        columns = [result[key] for key in self.keys]
        for function, column in zip(self.functions, found, strict=False):
            if getattr(function, "on", None) in unknown and not isinstance(function, agg.Count):
                columns.append(pa.nulls(len(column)))
            else:
                columns.append(function.finished(column, extra.get(id(function))))
        return pa.table(columns, names=[*self.keys, *(f.name for f in self.functions)])

    def _by_states(self, table: Block) -> Block:
        groups = list(groups_of(table, self.keys))
        results = block_of_rows([self._results(group) for group in groups])
        if groups:
            results = with_types(results, [f.output_field(table.schema) for f in self.functions])
        keys = concat([group.select(list(self.keys)).slice(0, 1) for group in groups])
        return beside([keys, results]) if self.keys else results

    def _results(self, group: Block) -> dict[str, Any]:
        values = [group[key][0].as_py() for key in self.keys]
        key = values[0] if len(values) == 1 else tuple(values)
        return {f.name: f.finalize(f.add(f.zero(key), group)) for f in self.functions}


def _places(names: Sequence[str], wanted: Sequence[str]) -> list[int]:
    used: set[int] = set()
    places = []
    for name in wanted:
        place = next(i for i, n in enumerate(names) if n == name and i not in used)
        used.add(place)
        places.append(place)
    return places


_STATE = "state"


@dataclass(frozen=True)
class IntoStates(Division):
    """Rows become the states of aggregations, of which their types are known, too."""

    functions: tuple[agg.AggregateFn, ...]
    parts: range = range(1)

    def pieces(self, table: Block) -> Iterator[Block]:
        states = [function.add(function.zero(()), table) for function in self.functions]
        fields = [function.output_field(table.schema) for function in self.functions]
        yield pa.table({_STATE: [cloudpickle.dumps((states, fields))]})


def result_of_states(table: Block, functions: Sequence[agg.AggregateFn]) -> Block:
    """Return one row, of the states that tasks of this execution have made."""
    parts = [cloudpickle.loads(state.as_py()) for state in table[_STATE]]
    states, fields = parts[0]
    for others, _ in parts[1:]:
        states = [f.merge(a, b) for f, a, b in zip(functions, states, others, strict=True)]
    results = {f.name: f.finalize(state) for f, state in zip(functions, states, strict=True)}
    return with_types(block_of_rows([results]), fields)


def with_types(results: Block, fields: Sequence[pa.Field | None]) -> Block:
    """Return results in the types that aggregations say they have."""
    for field in fields:
        if field is not None:
            results = set_column(results, field.name, results[field.name].cast(field.type))
    return results


@dataclass(frozen=True, eq=False)
class GroupTogether(Grouping):
    """Put groups as wholes into about `blocks` blocks."""

    blocks: int | None = None

    @property
    def name(self) -> str:
        return f"Group[{', '.join(self.keys)}]"

    def initial_num_blocks(self) -> int | None:
        return self.blocks

    def blocks_of_parts(self, parts: int) -> int:
        return -(-(self.blocks or 4 * driver_threads()) // parts)

    def of_tables(self, tables: Sequence[Block], part: int = 0) -> Block:
        check_columns(self.keys, tables[0].column_names)
        return sort_table(tables[0], self.order) if self.keys else tables[0]

    def cut(self, table: Block, blocks: int) -> Iterator[Bundle]:
        if not self.keys:
            yield bundle_of(table)
            return
        starts = group_starts(table, self.keys) if table.num_rows else np.array([0])
        count = min(blocks, max(1, len(starts) - 1))
        picks = [starts[(len(starts) - 1) * n // count] for n in range(count + 1)]
        for start, stop in pairwise(picks):
            yield bundle_of(table.slice(start, stop - start))


@dataclass(frozen=True)
class MapGroups:
    """A step on blocks in which groups are whole."""

    udf: UserFunction
    name: str
    keys: tuple[str, ...]
    batch_format: str
    zero_copy_batch: bool = True
    plain_rows: bool = True

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        for block in blocks:
            for outputs in portions(self._outputs(block), block_limit(), every=1):
                for output in () if self.plain_rows else outputs:
                    check_named(output, self.name)
                yield joined(outputs, block)

    def _outputs(self, block: Block) -> Iterator[Any]:
        groups: Iterator[Any] = groups_of(block, self.keys)
        groups = (batch_of(group, self.batch_format) for group in groups)
        if not self.zero_copy_batch:
            groups = map(copied, groups)
        try:
            for _, result in self.udf.results(groups):
                yield from result if hasattr(result, "__next__") else [result]
        except FunctionError as failure:
            raise blame(failure, self.name, is_batch=True) from None


class GroupedData:
    """Compute something for each group of a dataset; results are ordered by key.

    `Dataset.groupby` makes it.

    Args:
        dataset: The rows.
        keys: The columns whose values make the groups.
        blocks: How many blocks the results have; None chooses.

    Example:
        >>> ds = skate.data.from_items([{"k": "a", "x": 1}, {"k": "b", "x": 2}])
        >>> ds.groupby("k").mean("x").take_all()
        [{'k': 'a', 'mean(x)': 1.0}, {'k': 'b', 'mean(x)': 2.0}]
    """

    def __init__(self, dataset: Dataset, keys: tuple[str, ...], blocks: int | None) -> None:
        self._dataset = dataset
        self._keys = keys
        self._blocks = blocks

    def __repr__(self) -> str:
        key = self._keys[0] if len(self._keys) == 1 else list(self._keys)
        return f"GroupedData(dataset={self._dataset!r}, key={key!r})"

    def aggregate(self, *aggs: agg.AggregateFn) -> Dataset:
        """Compute aggregations of each group.

        Args:
            *aggs: Aggregations, such as `Mean("x")`; see `skate.data.aggregate`.

        Returns:
            A row per group: its keys and the results, named as `mean(x)`.

        Raises:
            ValueError: If there is no aggregation.

        Example:
            >>> from skate.data.aggregate import Count, Max
            >>> ds = skate.data.from_items([{"k": "a", "x": 1}, {"k": "a", "x": 3}])
            >>> ds.groupby("k").aggregate(Count(), Max("x")).take_all()
            [{'k': 'a', 'count()': 2, 'max(x)': 3}]
        """
        if not aggs:
            raise ValueError("aggregate needs at least one aggregation, such as Mean('x')")
        agg.check_targets(aggs)
        named = agg.distinct_names(aggs, self._keys)
        rows = self._dataset._only(agg.columns_read(named, self._keys))
        groups: Gathering = Aggregate((rows._plan,), self._keys, named)
        if self._blocks is not None and self._keys:
            groups = Repartition((groups,), self._blocks)
        return rows._with(groups)

    @showing_keywords(STEP)
    def map_groups(
        self,
        fn: Callable[..., object] | type[object],
        *,
        compute: object = None,
        batch_format: str | None = "default",
        fn_args: Sequence[object] | None = None,
        fn_kwargs: dict[str, Any] | None = None,
        fn_constructor_args: Sequence[object] | None = None,
        fn_constructor_kwargs: dict[str, Any] | None = None,
        concurrency: object = None,
        zero_copy_batch: bool = True,
        **remote_args: Unpack[StepKeywords],
    ) -> Dataset:
        """Call a function with each group as a batch; it returns a batch.

        Args:
            fn: The function, or a class whose instances are called, in actors.
            compute: As in `Dataset.map`.
            batch_format: "pandas" (the default: a frame, whose length is the number of rows),
                "numpy", "polars" or "pyarrow", which None means as well.
            fn_args: As in `Dataset.map`.
            fn_kwargs: As in `Dataset.map`.
            fn_constructor_args: As in `Dataset.map`.
            fn_constructor_kwargs: As in `Dataset.map`.
            concurrency: As in `Dataset.map`.
            zero_copy_batch: Whether groups may be read-only; if not, they are copies that can be
                changed in place.
            **remote_args: As in `Dataset.map`.

        Example:
            >>> ds = skate.data.from_items([{"k": "a", "x": 1}, {"k": "a", "x": 3}])
            >>> ds.groupby("k").map_groups(lambda group: group.nlargest(1, "x")).take_all()
            [{'k': 'a', 'x': 3}]
        """
        udf = UserFunction(
            fn, fn_args or (), fn_kwargs, fn_constructor_args or (), fn_constructor_kwargs
        )
        together = GroupTogether((self._dataset._plan,), self._keys, self._blocks)
        format_ = "pandas" if batch_format in DEFAULT_FORMATS else check_format(batch_format)
        step = MapGroups(
            udf, f"MapGroups({udf.name})", self._keys, format_, zero_copy_batch,
            self._dataset.context.has_plain_rows(),
        )  # fmt: skip
        return self._dataset._with(together)._mapped(
            step, step.name, udf, compute, concurrency, remote_args
        )

    @showing_keywords(STEP)
    def with_column(
        self, column_name: str, expr: Expr, **remote_args: Unpack[StepKeywords]
    ) -> Dataset:
        """Add a column that an expression computes from each group on its own.

        Args:
            column_name: The name of the column.
            expr: The expression; a function of yours in it sees the values of one group at a time.
            **remote_args: As in `Dataset.map`.
        """

        def added(group: Block) -> Block:
            return expr.added_to(group, column_name)

        return self.map_groups(added, batch_format="pyarrow", **remote_args)

    def count(self) -> Dataset:
        """Count the rows of each group, into the column `count()`.

        Example:
            >>> ds = skate.data.from_items([{"k": "a"}, {"k": "b"}, {"k": "a"}])
            >>> ds.groupby("k").count().take_all()
            [{'k': 'a', 'count()': 2}, {'k': 'b', 'count()': 1}]
        """
        return self.aggregate(agg.Count())

    def sum(self, on: str | Sequence[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Add up columns in each group.

        Args:
            on: A column, or several; None is all that hold numbers.
            ignore_nulls: Whether missing values are left out; if not, one of them makes the result
                None.

        Returns:
            A row per group: its keys and the results, named as `sum(x)`.

        Example:
            >>> ds = skate.data.from_items([{"k": "a", "x": 1}, {"k": "a", "x": 3}])
            >>> ds.groupby("k").sum("x").take_all()
            [{'k': 'a', 'sum(x)': 4}]
        """
        return self._each(agg.Sum, on, ignore_nulls=ignore_nulls)

    def min(self, on: str | Sequence[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Find the smallest value of columns in each group.

        Args:
            on: A column, or several; None is all that hold numbers, text or times.
            ignore_nulls: As in `sum`.

        Returns:
            A row per group: its keys and the results, named as `min(x)`.
        """
        return self._each(agg.Min, on, ignore_nulls=ignore_nulls)

    def max(self, on: str | Sequence[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Find the greatest value of columns in each group.

        Args:
            on: A column, or several; None is all that hold numbers, text or times.
            ignore_nulls: As in `sum`.

        Returns:
            A row per group: its keys and the results, named as `max(x)`.
        """
        return self._each(agg.Max, on, ignore_nulls=ignore_nulls)

    def mean(self, on: str | Sequence[str] | None = None, ignore_nulls: bool = True) -> Dataset:
        """Compute the mean of columns in each group.

        Args:
            on: As in `sum`.
            ignore_nulls: As in `sum`.

        Returns:
            A row per group: its keys and the results, named as `mean(x)`.
        """
        return self._each(agg.Mean, on, ignore_nulls=ignore_nulls)

    def std(
        self, on: str | Sequence[str] | None = None, ddof: int = 1, ignore_nulls: bool = True
    ) -> Dataset:
        """Compute the standard deviation of columns in each group.

        Args:
            on: As in `sum`.
            ddof: What is subtracted from the number of rows: 1 for a sample, 0 for all there is.
            ignore_nulls: As in `sum`.

        Returns:
            A row per group: its keys and the results, named as `std(x)`.
        """
        return self._each(agg.Std, on, ddof=ddof, ignore_nulls=ignore_nulls)

    def _each(
        self,
        make: Callable[..., agg.AggregateFn],
        on: str | Sequence[str] | None,
        **arguments: object,
    ) -> Dataset:
        columns = self._dataset._aggregated_columns(make, on, exclude=self._keys)
        return self.aggregate(*(make(column, **arguments) for column in columns))
