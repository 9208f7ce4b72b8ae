"""Stages of an execution: a chain of steps, and where its work is under way.

    source ──► Stage ──► Stage ──► consumer          each: running (in order), finished (in order)

A stage takes input while the jobs that run and the blocks that wait for the next stage are fewer
than its window, so a consumer that stops stops everything behind it. Blocks come out in the order
in which they went in.
"""

from __future__ import annotations

import threading
import time
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property
from typing import Any

import skate
from skate._core.errors import add_note, as_of_a_task
from skate.data._arrow.blocks import Block, concat
from skate.data._execution.allocation import keep_memory
from skate.data._execution.bundles import Bundle, bundle_of
from skate.data._execution.compute import ActorPoolStrategy, TaskPoolStrategy
from skate.data._execution.jobs import RemoteJob, StageJob, ThreadJob
from skate.data._execution.partitions import ExchangePart, PartShape, has_nodes, tasks_at_a_time
from skate.data._execution.stats import StageStats
from skate.data._execution.transforms import SourceTask, TransformChain
from skate.data._execution.udf import UserFunction
from skate.data._io.retries import called_off
from skate.data._settings.context import driver_threads

# A job waits while its consumer is two blocks (of two items each) behind.
_STREAMING = {"num_returns": "streaming", "_generator_backpressure_num_objects": 4}


def _allow_views() -> None:
    """Silence torch's warning of arrays that cannot be written to, which batches are on
    purpose."""
    warnings.filterwarnings("ignore", message="The given NumPy array is not writable")


def stream_chain(chain: TransformChain, payloads: Sequence[object]) -> Iterator[object]:
    """Yield block, meta, block, meta …, as they come. Functions see their dataset's settings."""
    _allow_views()
    keep_memory()
    return chain.settings.during(chain.stream(payloads))


# -- where jobs run -----------------------------------------------------------------------------


class TaskPool:
    """Jobs as tasks. They ask for no CPU unless the user says so: the window bounds them, and
    they must not starve behind consumers that hold all CPUs."""

    def __init__(
        self, chain: TransformChain, strategy: TaskPoolStrategy, options: Mapping[str, Any]
    ) -> None:
        def stream(*payloads: object) -> Iterator[Any]:
            yield from stream_chain(chain, payloads)

        self.chain = chain
        self.demand = demand_of(options)
        options = {"num_cpus": 0, **_STREAMING, **options, "name": chain.name}
        self._stream = skate.remote(stream).options(**options)
        self._is_placed = "scheduling_strategy" in options
        self.window = strategy.size or tasks_at_a_time()
        # One or two wait in workers for their turn, unless the user has said how many may run;
        # not before a first one has ended, whose rows somebody waits for.
        self._most = self.window + (1 if self.window < 4 else 2)
        self._most_running = self.window
        self._most_later = strategy.size or self._most

    def has_room(self, running: int, finished: int) -> bool:
        return running < self._most_running and running + finished < self._most

    def submit(self, payloads: Sequence[object]) -> StageJob:
        # What was not computed on some node, or on many, may go to any; blocks draw tasks.
        is_anywhere = isinstance(payloads[0], (SourceTask, PartShape))
        stream = self._spread if is_anywhere and not self._is_placed else self._stream
        return RemoteJob(stream.remote(*payloads), self._ended)

    @cached_property
    def _spread(self) -> Any:
        """The same, over all nodes."""
        if not has_nodes():
            return self._stream
        return self._stream.options(scheduling_strategy="SPREAD")

    def _ended(self) -> None:
        self._most_running = self._most_later

    def close(self) -> None:
        pass

    def is_starved(self, job: RemoteJob) -> bool:
        """Return whether a job has no place yet, because others hold the resources."""
        if not self.demand:
            return False
        from skate.util.state import list_tasks

        task = job.generator._generator_ref.task_id().hex()
        try:
            rows = list_tasks(filters=[("task_id", "=", task)])
        except Exception:  # a Ray cluster tells it only if it has a dashboard
            return False
        return any(row["state"] == "PENDING_NODE_ASSIGNMENT" for row in rows)


class _Mapper:
    """The actor of a pool. The user's classes are constructed by the first job, so that what a
    constructor raises reaches the user as what it is."""

    def __init__(self, chain: TransformChain, one_at_a_time: bool) -> None:
        self.chain = chain
        functions = (getattr(step, "udf", None) for step in chain.steps)
        self.functions = [each for each in functions if isinstance(each, UserFunction)]
        if one_at_a_time:
            for function in self.functions:
                function.call_in_one_thread()

    def started(self) -> None:
        """Answer, which means that the actor has its resources."""

    def constructed(self) -> None:
        """Construct the user's classes; an answer means that they are constructed, or cannot
        be."""
        for function in self.functions:
            function.load()

    def stream(self, *payloads: object) -> Iterator[Any]:
        yield from stream_chain(self.chain, payloads)


class Actors:
    """Jobs as calls of a pool of actors, which grows while all are busy and shrinks at the end.

    The engine restarts an actor that dies and repeats its call."""

    def __init__(
        self, chain: TransformChain, strategy: ActorPoolStrategy, options: Mapping[str, Any]
    ) -> None:
        self.demand = demand_of(options)
        options = {"max_restarts": -1, "max_task_retries": 3, **options}
        if strategy.max_concurrent_calls_per_actor is not None:
            options["max_concurrency"] = strategy.max_concurrent_calls_per_actor
        # With the names of the modules, by which the engine chooses where to start the actor, and
        # called by what it does, for errors, lists of actors and of processes.
        mapper: Any = type(f"MapWorker({chain.name})", (_Mapper,), {"modules": chain.modules})
        self._actor = skate.remote(mapper).options(**options)
        self.chain = chain
        several_calls = (options.get("max_concurrency") or 1) > 1
        self._one_at_a_time = several_calls and not strategy.enable_true_multi_threading
        self._chain = skate.put(chain)
        self.strategy = strategy
        self.depth = strategy.max_tasks_in_flight_per_actor
        self.load: dict[Any, int] = {}
        self._started: list[skate.ObjectRef[Any]] = []
        self.window = strategy.max_size * self.depth

    def _grow(self) -> object:
        actor = self._actor.remote(self._chain, self._one_at_a_time)
        self.load[actor] = 0
        self._started.append(actor.started.remote())
        return actor

    def is_starved(self) -> bool:
        """Return whether no actor has its resources yet, because others hold them."""
        if not self._started or self._fits() or skate.wait(self._started, timeout=0)[0]:
            return False
        return not self._is_starting()

    def _is_starting(self) -> bool:
        """Return whether an actor has a place already, and its process or constructor takes its
        time."""
        from skate.util.state import list_actors

        own = {actor._actor_id.hex() for actor in self.load}
        try:
            rows = [row for row in list_actors() if row["actor_id"] in own]
            return any((row["node_id"] or "").strip("f") for row in rows)  # "ff…": none
        except Exception:  # a Ray cluster tells it only if it has a dashboard
            return False

    def has_room(self, running: int, finished: int) -> bool:
        return running + finished < self.window

    def submit(self, payloads: Sequence[object]) -> StageJob:
        if not self.load:  # not before there is work
            self._begin()
        actor = min(self.load, key=self.load.__getitem__)
        if self.load[actor] > 0 and len(self.load) < self.strategy.max_size and self._fits():
            actor = self._grow()
        self.load[actor] += 1
        stream = actor.stream.options(**_STREAMING).remote(*payloads)
        return RemoteJob(stream, lambda: self._ended(actor))

    def _begin(self) -> None:
        """Start the first actors, and wait for the least number of them if the settings say so."""
        while len(self.load) < self.strategy.initial_size:
            self._grow()
        least, seconds = self.strategy.min_size, self.chain.settings.wait_for_min_actors_s
        if seconds <= 0:
            return
        answers = [actor.constructed.remote() for actor in self.load]
        there, _ = skate.wait(answers, num_returns=least, timeout=seconds)
        if len(there) < least:
            raise skate.exceptions.GetTimeoutError(
                f"Timed out while starting actors of {self.chain.name}: {len(there)} of {least} "
                f"are there after {seconds} s; raise DataContext.wait_for_min_actors_s, or set it "
                "to -1 to begin with those that are there"
            )

    def _fits(self) -> bool:
        """Return whether one more actor would start: one that waits would keep its job waiting."""
        if not skate.is_initialized():  # the session has ended: to ask would begin another
            return False
        free = skate.available_resources()
        return all(free.get(name, 0) >= amount for name, amount in self.demand.items())

    def _ended(self, actor: object) -> None:
        self.load[actor] -= 1

    def shrink(self) -> None:
        """Let idle actors go, down to the smallest size, as no more input comes."""
        for actor in [actor for actor, load in self.load.items() if load == 0]:
            if len(self.load) > self.strategy.min_size:
                del self.load[actor]

    def close(self) -> None:
        self.load.clear()
        self._started.clear()


def demand_of(options: Mapping[str, Any]) -> dict[str, float]:
    """Collect what one task or actor with these options holds while it runs."""
    demand = {"CPU": options.get("num_cpus") or 0, "GPU": options.get("num_gpus") or 0}
    demand.update(options.get("resources") or {})
    return {name: amount for name, amount in demand.items() if amount}


class ThreadPool:
    """Jobs in threads of this process: for steps that are Arrow's or NumPy's own code."""

    def __init__(self, chain: TransformChain) -> None:
        self.chain = chain
        self.window = driver_threads()
        self._pool: ThreadPoolExecutor | None = None
        self._closed = threading.Event()

    def has_room(self, running: int, finished: int) -> bool:
        return running + finished <= self.window

    def submit(self, payloads: Sequence[object]) -> StageJob:
        if self._pool is None:
            self._pool = ThreadPoolExecutor(self.window, thread_name_prefix="skate-data")
        return ThreadJob(self._pool.submit(_run_here, self.chain, payloads, self._closed))

    def close(self) -> None:
        self._closed.set()
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)


def _run_here(
    chain: TransformChain, payloads: Sequence[object], closed: threading.Event
) -> tuple[list[Block], float]:
    called_off.set(closed)
    start = time.perf_counter()
    try:
        block = concat(list(chain.settings.during(chain(payloads))))
    except Exception as error:
        raise as_of_a_task(error, chain.name) from None
    return list(chain.pieces(block)), time.perf_counter() - start


class Stage:
    """One chain at work: input that waits, jobs that run, blocks that are finished."""

    def __init__(
        self,
        workers: TaskPool | Actors | ThreadPool,
        stats: StageStats,
        min_rows: int,
        may_fail: Callable[[], bool],
    ) -> None:
        self.workers = workers
        self.stats = stats
        self.min_rows = min_rows
        self.running: deque[StageJob] = deque()
        self.finished: deque[Bundle] = deque()
        self.input_ended = False
        self._waiting: list[Any] = []
        self._rows = 0
        self._ends_first: StageJob | None = None  # see `make_way`
        self._may_fail = may_fail
        self._empty: Bundle | None = None  # a block without rows, for its columns
        self._had_rows = False
        self._keeps_empty_blocks = bool(workers.chain.keeps_empty_blocks)

    def has_room(self, limit_bytes: float) -> bool:
        if self.input_ended or self._has_enough(limit_bytes):
            return False
        return self.workers.has_room(len(self.running), len(self.finished))

    def is_full(self, limit_bytes: float) -> bool:
        """Return whether jobs that run are held back, because enough waits for the next stage."""
        if self._ends_first is not None and self.running and self.running[0] is self._ends_first:
            return False
        return self._has_enough(limit_bytes)

    def _has_enough(self, limit_bytes: float) -> bool:
        if len(self.finished) > self.workers.window + 1:
            return True
        return bool(self.finished) and sum(b.size for b in self.finished) > limit_bytes

    def is_starved(self) -> bool:
        """Return whether its next job has no place yet, because others hold the resources."""
        if isinstance(self.workers, Actors):
            return self.workers.is_starved()
        first = self.running[0] if self.running else None
        if not isinstance(self.workers, TaskPool) or not isinstance(first, RemoteJob):
            return False
        return self.workers.is_starved(first)

    def make_way(self) -> bool:
        """Let the first job run to its end whatever waits for the next stage, if it is a task
        that holds resources; return whether it is."""
        holds = isinstance(self.workers, TaskPool) and bool(self.workers.demand and self.running)
        self._ends_first = self.running[0] if holds else None
        return holds

    def add(self, item: Bundle | SourceTask | ExchangePart) -> None:
        """Take input; small blocks are collected until they make a batch."""
        self._waiting.append(item)
        if item.rows is not None:
            self._rows += item.rows
        if item.rows is None or self._rows >= self.min_rows:
            rest = self._rest()
            self._flush()
            if rest is not None:
                self._waiting, self._rows = [rest], rest.rows

    def _rest(self) -> Bundle | None:
        """Cut off what does not fill a batch, if the last block is here and that is free."""
        last = self._waiting[-1]
        extra = self._rows % self.min_rows if self.min_rows else 0
        if not extra or not isinstance(last, Bundle) or last.block is None or extra >= last.rows:
            return None
        self._waiting[-1] = last.slice(0, last.rows - extra)
        return last.slice(last.rows - extra, extra)

    def end_input(self) -> None:
        if not self.input_ended:
            self.input_ended = True
            self._flush()
            if isinstance(self.workers, Actors):
                self.workers.shrink()
            self._show_columns()

    def _flush(self) -> None:
        if self._waiting:
            payloads = [payload for each in self._waiting for payload in each.payloads()]
            self.running.append(self.workers.submit(payloads))
            self.running[-1].start = self._waiting[0].start
            self.running[-1].pieces = len(self._waiting)
            self._waiting, self._rows = [], 0

    def harvest(self, limit_bytes: float) -> None:
        """Move what is finished, in order, to `finished`, as long as there is room."""
        while self.running and not self.is_full(limit_bytes):
            head = self.running[0]
            try:
                found = head.poll(self.stats)
            except Exception as error:
                if not isinstance(error, skate.exceptions.TaskError):
                    add_note(error, f"in {self.stats.name}")
                if not self._may_fail():
                    raise
                head.end()
                found = []
            for bundle in found:
                if head.start is not None and bundle.rows:
                    bundle, head.start = bundle._replace(start=head.start), None
                self._take(bundle)
            if not found and not head.done:
                return
            if head.done:
                self.running.popleft()
                self.stats.pieces_done += head.pieces
                if self.input_ended and isinstance(self.workers, Actors):
                    self.workers.shrink()

        self._show_columns()

    def _take(self, bundle: Bundle) -> None:
        if bundle.rows or self._keeps_empty_blocks:
            self._had_rows = True
            self.finished.append(bundle)
        else:
            self._empty = bundle

    def _show_columns(self) -> None:
        """Give an empty block at the end where no row is left, so that the columns are known."""
        over = self.input_ended and not self.running
        if over and not self._had_rows and self._empty is not None:
            self.finished.append(self._empty)
            self._empty = None

    @property
    def exhausted(self) -> bool:
        return self.input_ended and not self.running and not self.finished

    def close(self) -> None:
        for job in self.running:
            job.cancel()
        self.running.clear()
        self.workers.close()


def chain_here(
    chain: TransformChain,
    stats: StageStats,
    items: Iterator[Bundle | SourceTask],
    may_fail: Callable[[], bool],
) -> Iterator[Bundle]:
    """Run a chain on the items without any concurrency: for blocks that are here already."""
    empty: Block | None = None
    had_rows = False
    for item in items:
        start = item.start
        try:
            for block in _timed(chain([item.get() if isinstance(item, Bundle) else item]), stats):
                if not block.num_rows:
                    empty = block
                    continue
                had_rows = True
                for piece in chain.pieces(block):
                    yield bundle_of(piece)._replace(start=start)
                    start = None
        except Exception as error:
            if not may_fail():
                raise as_of_a_task(error, chain.name) from None
        stats.pieces_done += 1
    if empty is not None and not had_rows:
        yield bundle_of(empty)


def _timed(blocks: Iterator[Block], stats: StageStats) -> Iterator[Block]:
    start = time.perf_counter()
    for block in blocks:
        stats.add(block.num_rows, block.nbytes, time.perf_counter() - start)
        yield block
        start = time.perf_counter()
