"""From the operations of a run to the lazy frame of its last one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from skate.data._arrow.blocks import Block
from skate.data._arrow.sorting import sort_table
from skate.data._execution.bundles import BundleBuffer, table_of
from skate.data._execution.exchange import Sort
from skate.data._execution.joins import Join
from skate.data._plan import nodes as plan
from skate.data._relational.carried import UnlikeArrowError
from skate.data._relational.frames import Frame, frame_of
from skate.data._relational.operations import (
    lowered_aggregate,
    lowered_join,
    lowered_sort,
    lowered_step,
    sees_order,
)
from skate.data._relational.scans import scanned, size_of
from skate.data.grouped_data import Aggregate

Input = plan.Read | BundleBuffer | Block  # files to be scanned, or rows that are here


@dataclass(frozen=True, eq=False)
class Slot(plan.Node):
    """The place of an input in a run; `is_shared` if it is not the only one of that input."""

    number: int
    is_shared: bool = False


def bytes_of(inputs: Sequence[Input]) -> int:
    """Return about how many bytes the rows have in memory."""
    return sum(map(_bytes_of, inputs))


def _bytes_of(rows: Input) -> int:
    if isinstance(rows, plan.Read):
        return size_of(rows)
    return rows.size if isinstance(rows, BundleBuffer) else rows.nbytes


def _frame(rows: Input) -> Frame:
    if isinstance(rows, plan.Read):
        return scanned(rows)
    if isinstance(rows, BundleBuffer):
        return frame_of(table_of(rows.bundles), len(rows.bundles))
    return frame_of(rows)


class Lowering:
    """The frames of a run. An operation that Polars would do otherwise than Arrow is done by
    Arrow, on the rows that come before it, if they may be collected; else the run is not for
    Polars."""

    def __init__(self, inputs: Sequence[Input], may_collect: bool) -> None:
        self._inputs = [_frame(each) for each in inputs]
        self._may_collect = may_collect

    def frame(self, node: plan.Node, ordered: bool) -> Frame:
        if isinstance(node, Slot):
            return self._inputs[node.number]
        if isinstance(node, plan.Limit):
            below = self.frame(node.input, ordered=True)
            return replace(below, lazy=below.lazy.head(node.limit), blocks=1)
        if isinstance(node, plan.Map):
            return self._step(node, ordered)
        if isinstance(node, Sort):
            return self._sort(node, ordered)
        if isinstance(node, Aggregate):
            return self._aggregate(node, ordered)
        assert isinstance(node, Join)
        return self._join(node, ordered)

    def _step(self, node: plan.Map, ordered: bool) -> Frame:
        below = self.frame(node.input, ordered)
        try:
            return lowered_step(node.step, below)
        except UnlikeArrowError:
            return self._by_arrow(below, lambda table: next(node.step(iter([table]))))

    def _sort(self, node: Sort, ordered: bool) -> Frame:
        below = self.frame(node.children[0], ordered)
        try:
            return lowered_sort(node, below, ordered)
        except UnlikeArrowError:
            return self._by_arrow(below, lambda table: sort_table(table, node.keys))

    def _aggregate(self, node: Aggregate, ordered: bool) -> Frame:
        below = self.frame(node.children[0], sees_order(node))
        try:
            return lowered_aggregate(node, below, ordered)
        except UnlikeArrowError:
            return replace(self._by_arrow(below, node.all_groups), blocks=1)

    def _join(self, node: Join, ordered: bool) -> Frame:
        left, right = (self.frame(child, ordered) for child in node.children)
        try:
            return lowered_join(node, left, right, ordered)
        except UnlikeArrowError:
            pair = self._collected(left), self._collected(right)
            return frame_of(node.join(*pair), node.blocks)

    def _by_arrow(self, frame: Frame, step: Callable[[Block], Block]) -> Frame:
        """Return the frame after a step of Arrow's kernels on its rows."""
        return frame_of(step(self._collected(frame)), frame.blocks)

    def _collected(self, frame: Frame) -> Block:
        if not self._may_collect:
            raise UnlikeArrowError
        return frame.table()
