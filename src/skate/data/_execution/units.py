"""Executions by units: pieces of the input that every run of the same plan calls the same.

    task 0 of the source ─┬─ unit (0, 0) ─ job ─► blocks ─ job ─► written, and noted in a log
                          └─ unit (0, 1) …
    task 1 of the source ─── unit (1, 0) …

A unit is about a block's worth of what a task of the source reads; above an exchange, a block that
comes out of it. Each goes through the stages by itself, so that no batch has rows of two. Where a
stage makes several blocks of one, they are the parts of the unit, and the last one says so. What
the log has of earlier runs is not computed again; tasks that are over are not even read.
"""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

from skate._core.errors import add_note
from skate.data._arrow.blocks import Block, concat
from skate.data._execution.bundles import Bundle, bundle_of, even_bundles
from skate.data._execution.compute import TaskPoolStrategy
from skate.data._execution.executor import PlanExecution
from skate.data._execution.fusing import Fused, fuse
from skate.data._execution.progress import Progress
from skate.data._execution.stages import Stage
from skate.data._execution.stats import ExecutionStats
from skate.data._execution.transforms import SourceTask, TransformChain, portions
from skate.data._plan import nodes as plan
from skate.data._plan.optimizer import optimise
from skate.data._relational.runs import Relational, with_runs
from skate.data._settings.context import DataContext

T = TypeVar("T")


class Unit(NamedTuple):
    """The number of its task, its own number there, and how many rows it begins with."""

    task: int
    block: int
    rows: int


class PartOfUnit(NamedTuple):
    """One of the blocks that a stage has made of a unit."""

    unit: Unit
    number: int
    is_last: bool


class UnitsChangedError(ValueError):
    """A unit is not what it was in the run before."""


class UnitLog(ABC):
    """What is over. It travels to the processes that work."""

    @abstractmethod
    def done(self, task: int) -> Mapping[int, int]:
        """Return the numbers and rows of those units of a task of which all parts are done."""

    @abstractmethod
    def is_over(self, task: int) -> bool:
        """Return whether all units of a task are done, and it is known that there are no
        others."""

    @abstractmethod
    def end_task(self, task: int, units: int) -> None:
        """Note that a task has so many units."""

    @abstractmethod
    def choice(self, number: int) -> int:
        """Return the number that the first run has chosen; this one, if it is the first."""


class UnitWriter(Protocol):
    """Writes a part of a unit, and notes in the log that it is done."""

    def write(self, place: PartOfUnit, blocks: Callable[[], Iterator[Block]]) -> Block:
        """Write the blocks, which are computed by the call, unless that was done before; return
        what is to be said about it."""


@dataclass(frozen=True)
class UnitsOfTask:
    """A task of a source, as an argument of a job: what is left of it."""

    number: int
    task: SourceTask
    cuts: int
    done: Mapping[int, int]
    log: UnitLog

    def units(self, max_bytes: float) -> Iterator[tuple[PartOfUnit, list[Block]]]:
        """Yield the units that are left, with their rows."""
        count = 0
        for count, blocks in enumerate(self._pieces(max_bytes), 1):
            rows = sum(block.num_rows for block in blocks)
            unit = Unit(self.number, count - 1, rows)
            if not is_known(unit, self.done):
                yield PartOfUnit(unit, 0, True), blocks
        self.log.end_task(self.number, count)

    def _pieces(self, max_bytes: float) -> Iterator[list[Block]]:
        for blocks in portions(iter(self.task.read()), max_bytes, every=1):
            if self.cuts == 1:
                yield blocks
            else:
                yield from ([piece.get()] for piece in even_bundles(concat(blocks), self.cuts))


def is_known(unit: Unit, done: Mapping[int, int]) -> bool:
    """Return whether the unit is done. Raise if the unit of that number had other rows."""
    rows = done.get(unit.block)
    if rows is not None and rows != unit.rows:
        raise UnitsChangedError(
            f"block {unit.block} of piece {unit.task} of the input has {unit.rows} rows and had "
            f"{rows} when it was written: the plan does not give the same rows each time"
        )
    return rows is not None


class UnitChain(TransformChain):
    """The steps of a stage, on one unit after the other; with a `writer` what comes out is
    written where it is computed."""

    def __init__(self, steps: Sequence[Any], name: str, writer: UnitWriter | None) -> None:
        super().__init__(steps, name)
        self.writer = writer

    def stream(self, payloads: Sequence[Any]) -> Iterator[object]:
        first = payloads[0]
        try:
            if isinstance(first, UnitsOfTask):
                for place, blocks in first.units(self.max_bytes):
                    yield from self._of_part(place, blocks)
            else:
                yield from self._of_part(first, payloads[1:])
        except Exception as error:
            if isinstance(first, UnitsOfTask) and first.task.name:
                add_note(error, f"while processing {first.task.name}")
            raise

    def _of_part(self, place: PartOfUnit, blocks: Sequence[Block]) -> Iterator[object]:
        start = time.perf_counter()
        for block, is_last in with_last(self._outputs(place, blocks)):
            part = place._replace(is_last=place.is_last and is_last)
            yield block
            yield (block.num_rows, block.nbytes, time.perf_counter() - start, part)
            start = time.perf_counter()

    def _outputs(self, place: PartOfUnit, blocks: Sequence[Block]) -> Iterator[Block]:
        """Yield at least one block, for its place has an end to be told."""
        if self.writer is not None:
            yield self.writer.write(place, lambda: self.blocks(blocks))
            return
        found = self.blocks(blocks)
        yield next(found, concat([]))
        yield from found


def with_last(items: Iterable[T]) -> Iterator[tuple[T, bool]]:
    """Yield each item, and whether it is the last."""
    remaining = iter(items)
    for item in remaining:
        for following in remaining:
            yield item, False
            item = following
        yield item, True


class UnitStage(Stage):
    """A stage that works on units, or parts of them, each in jobs of its own."""

    _parts = 0  # of the unit that is under way, which are submitted

    def add(self, item: Any) -> None:
        if isinstance(item, UnitsOfTask):
            self.running.append(self.workers.submit([item]))
            return
        if self._waiting and self._rows >= self.min_rows:
            self._submit(item.place.unit, is_last=False)
        self._waiting.append(item)
        self._rows += item.rows
        if item.place.is_last:
            self._submit(item.place.unit, is_last=True)

    def _submit(self, unit: Unit, is_last: bool) -> None:
        place = PartOfUnit(unit, self._parts, is_last)
        payloads = [bundle.payload() for bundle in self._waiting]
        self.running.append(self.workers.submit([place, *payloads]))
        self._waiting, self._rows = [], 0
        self._parts = 0 if is_last else self._parts + 1

    def _take(self, bundle: Bundle) -> None:
        if bundle.rows or (bundle.place is not None and bundle.place.is_last):
            self.finished.append(bundle)


class UnitExecution(PlanExecution):
    """One execution by units, which writes what comes out."""

    stage_type = UnitStage

    def __init__(
        self, stats: ExecutionStats, context: DataContext, log: UnitLog, writer: UnitWriter
    ) -> None:
        self._progress = Progress(stats)
        super().__init__(stats, context, self._progress.update)
        self._log = log
        self._writer = writer

    def run(self, node: plan.Node, write: Fused | None) -> Iterator[Bundle]:
        """Yield what the writer says about each part. It works where the last function does, or as
        a stage of its own if `write` says how."""
        return self.context.during(self._run(optimise(with_runs(node)), write))

    def _run(self, node: plan.Node, write: Fused | None) -> Iterator[Bundle]:
        nodes: list[plan.Map] = []
        while isinstance(node, plan.Map):
            nodes.insert(0, node)
            node = node.input
        head = Fused([], [], TaskPoolStrategy(), {})
        if isinstance(node, plan.Read):
            head = Fused([], [node.name], TaskPoolStrategy(node.concurrency), dict(node.options))
            items: Iterator[Any] = self._units_of(node, nodes)
        else:
            items = self._numbered(node)
        fused = fuse(nodes, head)
        if write is not None:
            fused.append(write)
        else:
            fused[-1].names.append("Write")
        try:
            yield from self._remote(items, fused)
        finally:
            self.stats.finish()
            self._progress.close()

    def _chain(self, part: Fused, is_last: bool) -> TransformChain:
        writer = self._writer if is_last else None
        return UnitChain(part.steps, "->".join(part.names), writer)

    def _units_of(self, read: plan.Read, nodes: list[plan.Map]) -> Iterator[UnitsOfTask]:
        tasks = self._tasks(read, nodes)
        wanted = self._log.choice(len(tasks))
        if read.parallelism is None and wanted != len(tasks):
            tasks = self._tasks(plan.Read(read.source, wanted), nodes)
        cuts = max(1, -(-(read.parallelism or 0) // max(1, len(tasks))))
        for number, task in enumerate(tasks):
            if not self._log.is_over(number):
                yield UnitsOfTask(number, task, cuts, self._log.done(number), self._log)

    def _numbered(self, node: plan.Node) -> Iterator[Bundle]:
        if self._log.is_over(0):
            return
        below = PlanExecution(self.stats, self.context, self._progress.update)
        bundles: Iterator[Bundle] = (each for each in below.stream(node) if each.rows)
        if isinstance(node, Relational):  # whose blocks may end elsewhere each time
            bundles = self._recut(bundles)
        done, count = self._log.done(0), 0
        for count, bundle in enumerate(bundles, 1):
            unit = Unit(0, count - 1, bundle.rows)
            if not is_known(unit, done):
                yield bundle._replace(place=PartOfUnit(unit, 0, True))
        self._log.end_task(0, count)

    def _recut(self, bundles: Iterator[Bundle]) -> Iterator[Bundle]:
        """Cut the rows into bundles as long as the very first was, all but the last."""
        held: list[Block] = []
        rows = wanted = 0
        for bundle in bundles:
            wanted = wanted or self._log.choice(bundle.rows)
            held.append(bundle.get())
            rows += bundle.rows
            while rows >= wanted:
                table = concat(held)
                yield bundle_of(table.slice(0, wanted))
                held, rows = [table.slice(wanted)], rows - wanted
        if rows:
            yield bundle_of(concat(held))

    def _may_fail(self) -> bool:
        return False  # a block that is left out could not be told from one that is to come
