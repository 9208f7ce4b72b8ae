"""Ending a worker before the system, out of memory, ends whatever it likes: the driver, maybe.

While work is under way the guard looks at two things, the less often the further they are from
their limits, and at most a few times a second:

- the memory of the machine, or of the container. Near its end idle workers that hold much go
  first, then the newest piece of work that can be repeated, of whoever runs most of them. It is
  repeated later, as often as needed, unless it was the only one: it would fare no better then.
- each worker whose work said `memory=...`. Beyond that, it is ended; its work fails.

Nothing looks while nothing runs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from skate._core.machine import MemoryUse, ProcessMemory, memory_gauge, process_memory
from skate.engine.local.hub.resources import UNIT
from skate.exceptions import OutOfMemoryError

if TYPE_CHECKING:
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.workers import WorkerProcess

_SLOWER = 4.0  # times the refresh time between two looks, far from all limits,
_FASTER = 0.2  # and close to one
_GROWTH_BYTES = 4 << 30  # that work may fill in a second, on fast machines
_LEAST_LIMIT_BYTES = 64 << 20  # an interpreter and its imports alone may need that much
_LARGE_IDLE_BYTES = 64 << 20  # that make an idle worker worth ending


class Candidate(NamedTuple):
    """A worker with work that could be ended."""

    number: int  # of the worker
    order: int  # in which work was given out: the newest has the highest
    repeatable: bool
    owner: object  # who asked for the work


class Verdict(NamedTuple):
    """Whose work is ended, and whether it is repeated."""

    number: int
    repeat: bool


def choose(candidates: Sequence[Candidate]) -> Verdict | None:
    """Return which worker to end for the sake of the others, or None if there is none.

    What can be repeated goes before what cannot; of that, the newest of the owner who has most.
    """
    groups: dict[tuple[bool, object], list[Candidate]] = {}
    for candidate in candidates:
        group = candidate.owner if candidate.repeatable else candidate.number
        groups.setdefault((candidate.repeatable, group), []).append(candidate)
    if not groups:
        return None

    def rank(key: tuple[bool, object]) -> tuple[bool, int, int]:
        return key[0], len(groups[key]), max(candidate.order for candidate in groups[key])

    chosen = max(groups, key=rank)
    victim = max(groups[chosen], key=lambda candidate: candidate.order)
    return Verdict(victim.number, repeat=chosen[0] and len(groups[chosen]) > 1)


class Eviction(NamedTuple):
    """Why a worker was ended, and whether its work is repeated, however often it was tried."""

    error: OutOfMemoryError
    repeat: bool


class MemoryGuard:
    """Watches the workers of one session. Methods are called with the engine's lock held."""

    def __init__(
        self,
        ports: Ports,
        workers: dict[int, WorkerProcess],
        kill: Callable[[WorkerProcess], None],
        dismiss: Callable[[WorkerProcess], None],
        threshold: float,
        refresh_seconds: float,
    ) -> None:
        self._ports = ports
        self._workers = workers
        self._kill = kill
        self._dismiss = dismiss  # lets an idle worker have no more work
        self._gauge = memory_gauge()
        self._threshold = threshold
        self._refresh = refresh_seconds
        self.asleep: bool = self._refresh > 0  # and to be woken when work begins

    def wake(self) -> None:
        """Watch, until no work is left."""
        self.asleep = False
        self._look_again(self._refresh)

    def _look_again(self, delay: float) -> None:
        self._ports.call_later(delay, self._look)

    def _look(self) -> None:
        if self._ports.reactor.closed:
            return
        workers = list(self._workers.values())
        if not any(worker.in_flight for worker in workers):
            self.asleep = True
            return
        room = min(self._look_at_limits(workers), self._look_at_machine(workers))
        pause = max(_FASTER, min(_SLOWER, room / _GROWTH_BYTES / self._refresh))
        self._look_again(pause * self._refresh)

    # -- what work has asked for ---------------------------------------------------------------

    def _look_at_limits(self, workers: Sequence[WorkerProcess]) -> float:
        """End those beyond their own limit; the least room that another one has left."""
        room = float("inf")
        for worker in workers:
            limit = _own_limit(worker)
            if limit is None or worker.ending or worker.pid <= 0:
                continue
            use = process_memory(worker.pid)
            if use is None:
                continue
            used = use.private - _inherited(worker)
            if used > limit:
                self._end(worker, Eviction(_beyond_limit(worker, used, use, limit), repeat=False))
            room = min(room, max(0.0, limit - used))
        return room

    # -- the machine ---------------------------------------------------------------------------

    def _look_at_machine(self, workers: Sequence[WorkerProcess]) -> float:
        """Make room if there is little; how much there is."""
        use = self._gauge.read()
        if use is None:
            return float("inf")
        room = use.total * self._threshold - use.used
        # Who is being ended gives back what it has: one at a time.
        if room < 0 and not any(worker.evicted for worker in workers):
            self._make_room(workers, use)
        return max(0.0, room)

    def _make_room(self, workers: Sequence[WorkerProcess], use: MemoryUse) -> None:
        alive = [worker for worker in workers if worker.pid > 0 and not worker.ending]
        idle = [w for w in alive if w.shape is None and w.actor is None and not w.in_flight]
        large = [worker for worker in idle if _own_use(worker) > _LARGE_IDLE_BYTES]
        for worker in large:
            self._dismiss(worker)
            self._kill(worker)
        if large:
            return
        busy = {worker.number: worker for worker in alive if worker.in_flight or worker.actor}
        verdict = choose([_candidate(worker) for worker in busy.values()])
        if verdict is not None:
            worker = busy[verdict.number]
            peak = process_memory(worker.pid) or ProcessMemory(0, 0)
            error = self._machine_full(worker, peak, use)
            self._end(worker, Eviction(error, verdict.repeat))

    def _machine_full(
        self, worker: WorkerProcess, process: ProcessMemory, use: MemoryUse
    ) -> OutOfMemoryError:
        return OutOfMemoryError(
            f"{_name(worker)} (pid={worker.pid}) was ended, because memory ran out: "
            f"{_size(use.used)} of {_size(use.total)} were used, beyond the threshold of "
            f"{self._threshold:g}; at its peak, this process had {_size(process.peak)}. Run "
            "fewer at a time (num_cpus=, memory=), or use less; SKATE_MEMORY_USAGE_THRESHOLD "
            "moves the threshold, SKATE_MEMORY_MONITOR_REFRESH_MS=0 lets the system decide"
        )

    def _end(self, worker: WorkerProcess, eviction: Eviction) -> None:
        worker.evicted = eviction
        self._kill(worker)


def _candidate(worker: WorkerProcess) -> Candidate:
    actor = worker.actor
    if actor is not None:
        task, repeatable = actor.creation, actor.may_restart()
    else:
        task = next(iter(worker.in_flight.values()))
        repeatable = task.plan.retries != 0
    owner = (task.owner.number if task.owner is not None else 0, task.parent)
    return Candidate(worker.number, worker.order, repeatable, owner)


def _own_limit(worker: WorkerProcess) -> int | None:
    """Return how many bytes its work has asked for with `memory=`."""
    allocation = worker.allocation
    asked = allocation.demand.get("memory") if allocation is not None else None
    return None if asked is None else max(asked // UNIT, _LEAST_LIMIT_BYTES)


def _own_use(worker: WorkerProcess) -> int:
    use = process_memory(worker.pid)
    return 0 if use is None else use.private - _inherited(worker)


def _inherited(worker: WorkerProcess) -> int:
    """Return how many bytes a worker shares with its fork server, at the most."""
    server = None if worker.server is None else process_memory(worker.server.pid)
    return 0 if server is None else server.private


def _beyond_limit(
    worker: WorkerProcess, used: int, process: ProcessMemory, limit: int
) -> OutOfMemoryError:
    return OutOfMemoryError(
        f"{_name(worker)} (pid={worker.pid}) was ended: it asked for memory={limit:,} "
        f"({_size(limit)}) and used {_size(used)}; at its peak, its process had "
        f"{_size(process.peak)} in all. Ask for more with memory=, or leave it out for no limit"
    )


def _name(worker: WorkerProcess) -> str:
    actor = worker.actor
    if actor is not None:
        return str(actor.class_name)
    return next(iter(worker.in_flight.values())).name


def _size(count: int) -> str:
    return f"{count / (1 << 30):.2f} GiB" if count >= 1 << 30 else f"{count / (1 << 20):.0f} MiB"
