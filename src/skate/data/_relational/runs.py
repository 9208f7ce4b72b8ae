"""Runs of relational operations in a plan, each as one plan of Polars.

    Sort ◄─ Aggregate ◄─ Join ◄┬─ Filter ◄─ Read        Relational ◄┬─ Read      scanned by Polars
                               └─ MapBatches ◄─ Read        root    └─ MapBatches ◄─ Read

The root of a run is the plan of its operations, with a `Slot` where an input goes. Filters and
columns above a join, a sort or groups belong to the run, and those above files that Polars reads
itself. What is above other inputs is done block by block, before the rows are collected.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from skate._core.machine import memory
from skate.data import aggregate as agg
from skate.data._arrow.blocks import Block
from skate.data._execution.bundles import Bundle, BundleBuffer, bundle_of, even_bundles
from skate.data._execution.exchange import Sort
from skate.data._execution.joins import Join
from skate.data._execution.partitions import Gathering, has_nodes, is_divided
from skate.data._plan import nodes as plan
from skate.data._relational.carried import UnlikeArrowError
from skate.data._relational.lowering import Input, Lowering, Slot, bytes_of
from skate.data._relational.memory import bound_memory
from skate.data._relational.operations import STEPS, lowered_totals
from skate.data._relational.scans import is_scan
from skate.data._settings.context import DataContext
from skate.data.grouped_data import Aggregate


@dataclass(frozen=True, eq=False)
class Collected(plan.Exchange):
    """Rows that are here already, and are let go as they are used."""

    buffer: BundleBuffer = field(default_factory=lambda: BundleBuffer(0))

    def schema_of(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        return self.buffer.empty().schema

    def run(self, streams: list[Iterator[Bundle]], context: DataContext) -> Iterator[Bundle]:
        return self.buffer.drain()


@dataclass(frozen=True, eq=False)
class Relational(plan.Exchange):
    """A run of operations; `root` is the last of them."""

    root: plan.Node | None = None

    @property
    def name(self) -> str:
        assert self.root is not None
        nodes = [node.name for node in plan.walk(self.root) if not isinstance(node, Slot)]
        return "->".join(reversed(nodes))

    def run(self, streams: list[Iterator[Bundle]], context: DataContext) -> Iterator[Bundle]:
        raise AssertionError("the executor chooses between `answer` and `over`")

    def over(self, inputs: Sequence[Input]) -> plan.Node:
        """Return the plan without Polars, on inputs that are here or are files."""
        assert self.root is not None
        return _filled(self.root, inputs)

    def answer(self, inputs: Sequence[Input], context: DataContext) -> Iterator[Bundle] | None:
        """Return the rows by Polars; None if Arrow's kernels are to do it, because the rows are
        so few that Polars' import takes longer, so many that they go by partitions, or not even
        readable."""
        size = bytes_of(inputs)
        if size < context.engine_min_bytes or self._is_divided(inputs, context):
            return None
        if any(isinstance(each, BundleBuffer) and not each.empty().num_columns for each in inputs):
            return None
        is_large = size > context.sort_memory_bytes
        if is_large:
            bound_memory(context.sort_memory_bytes)
        try:
            return self._answer(inputs, context.target_max_block_size if is_large else None)
        except UnlikeArrowError:
            return None

    def _is_divided(self, inputs: Sequence[Input], context: DataContext) -> bool:
        """Return whether the operations go by partitions, one after the other. On one machine
        that is better than Polars' own spilling for rows that are here already; of files it
        reads what it needs, and groups need little of its memory."""
        if is_divided(
            bytes_of([each for each in inputs if isinstance(each, BundleBuffer)]), context
        ):
            return True
        size = bytes_of(inputs)
        if not is_divided(size, context):
            return False
        if context.partition_min_bytes is not None or has_nodes():
            return True
        assert self.root is not None
        if not any(map(_holds_rows, plan.walk(self.root))):
            return False
        whole = set(_ungrouped(self.root))
        grouped = [bytes_of([each]) for n, each in enumerate(inputs) if n not in whole]
        # The largest of what is grouped streams past what the joins hold.
        return size - max(grouped, default=0) > memory() // 2

    def _answer(self, inputs: Sequence[Input], most_bytes: int | None) -> Iterator[Bundle] | None:
        """Return the rows; with `most_bytes`, in blocks of that size while they are computed."""
        from polars.exceptions import PanicException, PolarsError

        assert self.root is not None
        try:
            lowering = Lowering(inputs, may_collect=most_bytes is None)
            frame = lowering.frame(self.root, ordered=True)
            if most_bytes is not None:
                return map(bundle_of, frame.tables(most_bytes))
            return even_bundles(frame.table(), frame.blocks)
        except (PolarsError, PanicException):
            return None  # Arrow may know better, or say what is wrong in our words


def _holds_rows(node: plan.Node) -> bool:
    """Return whether an operation needs the rows of its inputs as they are, and not as groups."""
    below = plan.walk(node)
    return isinstance(node, (Sort, Join)) and not any(isinstance(n, Aggregate) for n in below)


def _ungrouped(node: plan.Node) -> Iterator[int]:
    """Yield the numbers of the inputs whose rows come out of a run, and not only their groups."""
    if isinstance(node, Slot):
        yield node.number
    elif not isinstance(node, Aggregate):
        for below in node.inputs:
            yield from _ungrouped(below)


def answer_of_tables(node: Gathering, tables: Sequence[Block]) -> Block:
    """Return the result of one operation on tables that are here: by Polars as in a run, or, if
    they are small or it is not for Polars, by Arrow."""
    if bytes_of(tables) >= DataContext.get_current().engine_min_bytes:
        from polars.exceptions import PanicException, PolarsError

        root = replace(node, children=tuple(map(Slot, range(len(tables)))))
        with suppress(UnlikeArrowError, PolarsError, PanicException):
            return Lowering(tables, may_collect=False).frame(root, ordered=True).table()
    return node.of_tables(tables)


# -- finding runs -------------------------------------------------------------------------------


def with_runs(node: plan.Node) -> plan.Node:
    """Return the plan with its relational runs as one node each."""
    if _ends_run(node):
        inputs: dict[int, tuple[int, plan.Node]] = {}
        root = _run(node, inputs)
        numbers = Counter(each.number for each in plan.walk(root) if isinstance(each, Slot))
        shared = {number for number, uses in numbers.items() if uses > 1}
        return Relational(tuple(child for _, child in inputs.values()), _marked(root, shared))
    return plan.with_inputs(node, with_runs)


def _ends_run(node: plan.Node) -> bool:
    while _is_step(node):
        (node,) = node.inputs
    if isinstance(node, Sort):
        return node.boundaries is None  # which say where blocks begin
    return isinstance(node, (Join, Aggregate))


def _is_step(node: plan.Node) -> bool:
    """Return whether it is no reason for a run, but belongs to one that comes before."""
    if isinstance(node, plan.Map):
        return node.compute is None and not node.options and isinstance(node.step, STEPS)
    return isinstance(node, plan.Limit)


def _run(node: plan.Node, inputs: dict[int, tuple[int, plan.Node]]) -> plan.Node:
    """Return the operations of a run, and note its inputs. One that occurs twice is one input."""
    if _ends_run(node) or (_is_step(node) and _starts_with_scan(node)):
        return plan.with_inputs(node, lambda child: _run(child, inputs))
    if id(node) not in inputs:
        inputs[id(node)] = (len(inputs), node if is_scan(node) else with_runs(node))
    return Slot(inputs[id(node)][0])


def _marked(node: plan.Node, shared: set[int]) -> plan.Node:
    if isinstance(node, Slot):
        return replace(node, is_shared=node.number in shared)
    return plan.with_inputs(node, lambda child: _marked(child, shared))


def _starts_with_scan(node: plan.Node) -> bool:
    while _is_step(node):
        (node,) = node.inputs
    return is_scan(node)


def _filled(node: plan.Node, inputs: Sequence[Input]) -> plan.Node:
    if not isinstance(node, Slot):
        return plan.with_inputs(node, lambda child: _filled(child, inputs))
    rows = inputs[node.number]
    if isinstance(rows, plan.Read):
        return rows
    return plan.Input(tuple(rows.bundles)) if node.is_shared else Collected((), rows)


# -- numbers about all rows ---------------------------------------------------------------------


def totals_of(
    node: plan.Node, functions: Sequence[agg.AggregateFn], context: DataContext
) -> list[Any] | None:
    """Return the results of aggregations of all rows, if Polars reads all of them from files and
    does the same as Arrow; else None."""
    if not _ends_run(node) and not _starts_with_scan(node):
        return None
    inputs: dict[int, tuple[int, plan.Node]] = {}
    root = _run(node, inputs)
    scans = [child for _, child in inputs.values() if is_scan(child)]
    if len(scans) < len(inputs) or bytes_of(scans) < context.engine_min_bytes:
        return None
    from polars.exceptions import PanicException, PolarsError

    try:
        frame = Lowering(scans, may_collect=False).frame(root, ordered=False)
        return lowered_totals(functions, frame)
    except (UnlikeArrowError, PolarsError, PanicException):
        return None
