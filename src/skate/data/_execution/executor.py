"""The streaming executor: a logical plan becomes an iterator of bundles.

    plan ──optimise──► plan' ──► runs of per-block nodes become stages (fused), everything else
                                 (limit, union, zip, …) works on the bundles in the driver;
                                 large sorts, groups, joins and shuffles by partitions, in tasks

Steps made of Arrow's kernels only run in threads of this process, or directly when the blocks are
here already. A stage with a user's function runs in tasks or actors, together with the read and
the Arrow steps before and after it, so that rows cross a process border once.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import replace
from hashlib import blake2b
from math import inf, isinf
from typing import Any, ParamSpec, TypeVar

from skate._core.errors import as_of_a_task, without_own_frames
from skate._core.live_rows import announce
from skate._facade.api import works_elsewhere
from skate.data._execution.bundles import Bundle, BundleBuffer, bundle_of, even_bundles
from skate.data._execution.compute import ActorPoolStrategy, Compute, TaskPoolStrategy
from skate.data._execution.early_exit import Cancellation, close_early
from skate.data._execution.fusing import Fused, check_resources, fuse
from skate.data._execution.partitions import (
    ExchangePart,
    Gathering,
    Partitions,
    collect,
    is_divided,
)
from skate.data._execution.positions import ReadPosition
from skate.data._execution.prefetching import prefetched
from skate.data._execution.progress import Progress
from skate.data._execution.reports import report
from skate.data._execution.stages import (
    Actors,
    Stage,
    TaskPool,
    ThreadPool,
    chain_here,
)
from skate.data._execution.stats import ExecutionStats, Meter, live_rows_of
from skate.data._execution.transforms import SourceTask, TransformChain
from skate.data._execution.waiting import await_any, cancel
from skate.data._plan import nodes as plan
from skate.data._plan.optimizer import optimise
from skate.data._plan.static_schema import static_schema
from skate.data._relational.runs import Collected, Relational, with_runs
from skate.data._relational.scans import is_scan
from skate.data._settings.context import DataContext

P = ParamSpec("P")
R = TypeVar("R")

SMALL_LIMIT = 10_000  # rows; up to here the next file is read only when it is needed


def execute(
    node: plan.Node,
    context: DataContext,
    stats: ExecutionStats | None = None,
    position: ReadPosition | None = None,
    ahead: bool = False,
) -> Iterator[Bundle]:
    """Run the plan; bundles come in order, as they are asked for. A `position` says with which
    task of the source to begin, where the plan has one. With `ahead`, what tasks and actors
    compute goes on while the caller rests, as long as it takes no more memory than it may."""
    return context.during(_executed(node, context, stats or ExecutionStats(), position, ahead))


def _executed(
    node: plan.Node,
    context: DataContext,
    stats: ExecutionStats,
    position: ReadPosition | None,
    ahead: bool,
) -> Iterator[Bundle]:
    context.execution_options.validate()
    announce("datasets", stats, live_rows_of)
    progress = Progress(stats)
    run = PlanExecution(stats, context, progress.update)
    node = optimise(with_runs(node))
    if position is not None:
        run.begin_at(position, _source_of(node))
    stream: Iterator[Bundle] = iter(())
    try:
        stream = run.stream(node)
        if ahead and any(stage.is_elsewhere for stage in stats.stages) and works_elsewhere():
            stream = prefetched(context.during(stream), _limit_bytes(context), bundle_bytes)
        for bundle in stream:
            stats.rows += bundle.rows
            progress.update()
            yield from stats.handed_out(bundle)
    except Exception as error:
        report(error)
        raise without_own_frames(error)
    finally:
        close_early(stream)
        stats.finish()
        progress.close()


def _as_a_task(name: str, work: Callable[P, R], *args: P.args, **kwargs: P.kwargs) -> R:
    """Return what `work` returns; its errors are as if a task had done it."""
    try:
        return work(*args, **kwargs)
    except Exception as error:
        raise as_of_a_task(error, name) from None


def bundle_bytes(bundle: Bundle) -> int:
    """Return how many bytes a bundle has."""
    return bundle.size


def _limit_bytes(context: DataContext) -> int:
    """Compute how many bytes may wait for the next stage, or for the caller."""
    limit = context.execution_options.resource_limits.object_store_memory
    return 4 * context.target_max_block_size if isinf(limit) else int(limit)


class PlanExecution:
    """One execution."""

    stage_type: type[Stage] = Stage

    def __init__(
        self, stats: ExecutionStats, context: DataContext, show: Callable[[], None]
    ) -> None:
        self.stats = stats
        self.context = context
        self._show = show
        self._errors = 0
        self._begin: tuple[plan.Read, ReadPosition] | None = None

    def begin_at(self, position: ReadPosition, source: plan.Node) -> None:
        """Read the source of all rows from a position on, if it can be divided."""
        if isinstance(source, plan.Read):
            self._begin = source, position
        else:
            position.begin("")

    def stream(
        self, node: plan.Node, ahead: bool = True, gathered: bool = False
    ) -> Iterator[Bundle]:
        """Yield the bundles of a plan. Without `ahead`, a read does one task after the other; if
        they are `gathered`, large reads are done elsewhere, and their rows stay there."""
        nodes: list[plan.Map] = []
        while isinstance(node, plan.Map):
            nodes.insert(0, node)
            node = node.input
        if isinstance(node, plan.Read):
            return self._from_tasks(node, nodes, ahead, gathered)
        if isinstance(node, Relational):
            return self._relational(node, nodes)
        if isinstance(node, Gathering):
            return self._gathered(node, nodes)
        source = self._source(node)
        if not nodes:
            return source
        pieces = len(node.bundles) if isinstance(node, plan.Input) else 0
        return self._of_pieces(pieces, lambda: self._staged(source, fuse(nodes)))

    def _of_pieces(self, pieces: int, make: Callable[[], Iterator[Bundle]]) -> Iterator[Bundle]:
        """Note how many pieces of input the first of the stages has that are made."""
        first = len(self.stats.stages)
        stream = make()
        for stage in self.stats.stages[first : first + 1]:
            stage.pieces = pieces
        return stream

    def _source(self, node: plan.Node) -> Iterator[Bundle]:
        if isinstance(node, plan.Input) and node.bundles:
            return self._kept(node)
        if isinstance(node, plan.Input) or (isinstance(node, plan.Limit) and not node.limit):
            return no_rows(node)
        if isinstance(node, plan.Limit):
            ahead = node.limit > SMALL_LIMIT
            return limited(self.stream(node.input, ahead), node.limit)
        assert isinstance(node, plan.Exchange)
        streams = [self.stream(child) for child in node.inputs]
        meter = Meter(self.stats.stage(node.name, "driver"))
        return meter.output(node.run([meter.input(stream) for stream in streams], self.context))

    def _relational(self, node: Relational, above: list[plan.Map]) -> Iterator[Bundle]:
        inputs = [child if is_scan(child) else self._collected(child) for child in node.inputs]
        answer = _as_a_task(node.name, node.answer, inputs, self.context)
        if answer is None:
            rest = node.over(inputs)
            for each in above:
                rest = replace(each, input=rest)
            yield from self.stream(optimise(rest))
            return
        answer = Meter(self.stats.stage(node.name, "driver")).output(answer)
        yield from self._staged(answer, fuse(above))

    def _gathered(self, node: Gathering, above: list[plan.Map]) -> Iterator[Bundle]:
        """Run an exchange in this process, or by partitions. What is above it is done where they
        are finished."""
        inputs = [self._collected(child) for child in node.inputs]
        size = sum(each.size for each in inputs)
        if not any(each.rows for each in inputs) or not is_divided(size, self.context):
            answer = _as_a_task(node.name, node.in_memory, inputs)
            done = Meter(self.stats.stage(node.name, "driver")).output(answer)
            yield from self._staged(done, fuse(above))
            return
        divided = self.stats.stage(f"{node.name}[divide]", "tasks")
        exchange = _as_a_task(node.name, Partitions, node, inputs, self.context)
        head = Fused([exchange.finish], [node.name], TaskPoolStrategy(), {})
        yield from self._staged(exchange.parts(divided), fuse(above, head))

    def _collected(self, node: plan.Node) -> BundleBuffer:
        if isinstance(node, Collected):
            return node.buffer
        return collect(self.stream(node, gathered=True), self.context.sort_memory_bytes)

    def _kept(self, node: plan.Input) -> Iterator[Bundle]:
        stats = self.stats.stage(node.name, "in memory")
        for bundle in node.bundles:
            stats.add(bundle.rows, bundle.size, 0.0)
            yield bundle

    def _from_tasks(
        self, read: plan.Read, nodes: list[plan.Map], ahead: bool, gathered: bool
    ) -> Iterator[Bundle]:
        tasks = self._tasks(read, nodes)
        all_of_them = len(tasks)
        if self._begin is not None and self._begin[0] is read:
            tasks = _numbered(tasks, self._begin[1])
        compute = self._compute_of_read(read, tasks, gathered)
        head = Fused([], [read.name], compute, dict(read.options))
        large = any(task.streams for task in tasks)  # more than a block's worth: one after another
        count = len(tasks) if ahead and not large else 0
        if read.parallelism is None or read.parallelism <= all_of_them or not tasks:
            return self._of_pieces(
                len(tasks), lambda: self._staged(iter(tasks), fuse(nodes, head), count)
            )
        # Fewer pieces of the source than blocks asked for: its blocks are cut.
        each = -(-read.parallelism // all_of_them)
        head.is_cut_later = True
        blocks = self._of_pieces(len(tasks), lambda: self._staged(iter(tasks), [head], count))
        return self._staged(cut_up(blocks, each), fuse(nodes)) if nodes else cut_up(blocks, each)

    def _tasks(self, read: plan.Read, nodes: list[plan.Map]) -> list[SourceTask]:
        """Divide a source into the pieces to read, of whole batches if it can choose."""
        batch = next((node.min_rows for node in nodes if node.min_rows), 0)
        source = read.source.aligned(batch) if batch else read.source
        tasks = source.read_tasks(read.parallelism)
        least = self.context.read_op_min_num_blocks or 0
        few = read.parallelism is None and len(tasks) < least
        return source.read_tasks(least) if few else tasks

    def _compute_of_read(
        self, read: plan.Read, tasks: list[SourceTask], gathered: bool
    ) -> Compute | None:
        if read.options or read.concurrency:
            return TaskPoolStrategy(read.concurrency)
        if gathered and is_divided(read.source.size_bytes() or 0, self.context):
            return TaskPoolStrategy()
        size = sum(task.size_bytes or 0 for task in tasks)
        heavy = read.source.runs_python and size > self.context.in_driver_bytes
        return TaskPoolStrategy() if heavy else None

    # -- stages ---------------------------------------------------------------------------------

    def _staged(
        self,
        items: Iterator[Bundle | SourceTask | ExchangePart],
        fused: list[Fused],
        count: int = 0,
    ) -> Iterator[Bundle]:
        """Run stages on the items. Those of Arrow's kernels alone need no processes."""
        for number, stage in enumerate(fused):
            if stage.compute is None:
                items = self._in_driver(items, stage, count if number == 0 else 0)
                continue
            rest = fused[number:]
            cut = next((i for i, s in enumerate(rest) if s.compute is None), len(rest))
            remote = self._remote(items, rest[:cut])
            return self._staged(remote, rest[cut:]) if rest[cut:] else remote
        return items  # type: ignore[return-value]

    def _in_driver(self, items: Iterator[Any], fused: Fused, count: int) -> Iterator[Bundle]:
        chain = TransformChain(fused.steps, "->".join(fused.names))
        chain.max_bytes = inf if fused.is_cut_later else chain.max_bytes
        stats = self.stats.stage(chain.name, "driver")
        if count <= 1:
            return chain_here(chain, stats, items, self._may_fail)
        stage = Stage(ThreadPool(chain), stats, 0, self._may_fail)
        return self._loop(items, [stage])

    def _remote(self, items: Iterator[object], fused: list[Fused]) -> Iterator[Bundle]:
        check_resources(fused)
        stages: list[Stage] = []
        for part in fused:
            chain = self._chain(part, is_last=part is fused[-1])
            if isinstance(part.compute, ActorPoolStrategy):
                workers: TaskPool | Actors = Actors(chain, part.compute, part.options)
                where = f"actors, up to {part.compute.max_size}"
            else:
                assert part.compute is not None
                workers, where = TaskPool(chain, part.compute, part.options), "tasks"
            stats = self.stats.stage(chain.name, where)
            stages.append(self.stage_type(workers, stats, part.min_rows, self._may_fail))
        return self._loop(items, stages)

    def _chain(self, part: Fused, is_last: bool) -> TransformChain:
        return TransformChain(part.steps, "->".join(part.names))

    def _loop(self, items: Iterator[object], stages: list[Stage]) -> Iterator[Bundle]:
        limit = _limit_bytes(self.context)
        last = stages[-1]
        cancellation = Cancellation.of_consumer()
        cancellation.then(lambda: cancel(stages))
        try:
            while True:
                self._advance(items, stages, limit)
                self._show()
                if last.finished:
                    yield last.finished.popleft()
                elif last.exhausted or cancellation.declared:
                    return
                else:
                    full = [stage for stage in stages if stage.is_full(limit)]
                    await_any([stage for stage in stages if stage not in full], full)
        finally:
            for stage in stages:
                stage.close()
            close = getattr(items, "close", None)
            if close is not None:
                close()

    def _advance(self, items: Iterator[Any], stages: list[Stage], limit: float) -> None:
        for number in reversed(range(len(stages))):
            stage = stages[number]
            stage.harvest(limit)
            before = stages[number - 1] if number else None
            while stage.has_room(limit):
                if before is None:
                    item = next(items, None)
                elif before.finished:
                    item = before.finished.popleft()
                elif before.exhausted:
                    item = None
                else:
                    break
                if item is None:
                    stage.end_input()
                    break
                stage.add(item)

    def _may_fail(self) -> bool:
        """Count a block that failed, and return whether it may be left out."""
        import sys

        allowed = self.context.max_errored_blocks
        self._errors += 1
        if 0 <= allowed < self._errors:
            return False
        warnings.warn(f"a block failed and is left out: {sys.exc_info()[1]}", stacklevel=2)
        return True


def _source_of(node: plan.Node) -> plan.Node:
    """Find the node below all maps, from which their functions get the rows."""
    while isinstance(node, plan.Map):
        node = node.input
    return node


def _numbered(tasks: list[SourceTask], position: ReadPosition) -> list[SourceTask]:
    """Number the tasks, and return those from a position on."""
    said = repr([(task.name, task.size_bytes, task.rows) for task in tasks])
    for number, task in enumerate(tasks):
        task.number = number
    return tasks[position.begin(blake2b(said.encode(), digest_size=12).hexdigest()) :]


def cut_up(bundles: Iterator[Bundle], count: int) -> Iterator[Bundle]:
    """Cut each bundle into so many of about equal length, as far as it has rows."""
    for bundle in bundles:
        yield from even_bundles(bundle.get(), count)


def no_rows(node: plan.Node) -> Iterator[Bundle]:
    """Yield an empty block that shows the columns, if they are known without running anything."""
    schema = static_schema(node)
    if schema is not None and schema.names:
        yield bundle_of(schema.empty_table())


def limited(bundles: Iterator[Bundle], limit: int) -> Iterator[Bundle]:
    """Yield the first rows; what is not needed is not computed."""
    left = limit
    try:
        while left > 0:
            bundle = next(bundles, None)
            if bundle is None:
                return
            yield bundle if bundle.rows <= left else bundle_of(bundle.get().slice(0, left))
            left -= bundle.rows
    finally:
        close = getattr(bundles, "close", None)
        if close is not None:
            close()
