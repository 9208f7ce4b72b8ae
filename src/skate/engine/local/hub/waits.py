"""Workers that wait for others: their CPUs are free meanwhile, and why they wait can be asked."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from skate.engine.local import messages as m

if TYPE_CHECKING:
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.inventory import Row
    from skate.engine.local.hub.scheduler import Scheduler
    from skate.engine.local.hub.state import State
    from skate.engine.local.hub.wait_facts import WaitGraph
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.objects import ObjectEntry


class WorkerWaits:
    """Tells the scheduler which workers are blocked, and whoever asks what is waited for."""

    def __init__(self, state: State, scheduler: Scheduler, outbox: WorkerOutbox) -> None:
        self._state = state
        self._entries = state.entries
        self._scheduler = scheduler
        self._outbox = outbox
        self.asked: set[int] = set()  # workers that have not answered yet, by process number
        self._said: dict[int, m.TellWaits] = {}  # what the others have

    def on_blocked(
        self, worker: WorkerProcess, number: int, ids: Sequence[int], missing: int
    ) -> None:
        """Free the CPUs of a worker that waits, unless the answer is on its way already."""
        ready = sum(self._is_told(worker, id) for id in ids)
        if ready < missing:
            worker.waits[number] = ids
            self._scheduler.block(worker)

    def _is_told(self, worker: WorkerProcess, id: int) -> bool:
        entry = self._entries.get(id)
        return id == worker.answered if entry is None else entry.kind is not None

    def on_unblocked(self, worker: WorkerProcess, number: int) -> None:
        """Note that a wait is over."""
        if worker.waits.pop(number, None) is not None:
            self._scheduler.unblock(worker)

    # -- the facts -----------------------------------------------------------------------------

    def ask(self) -> None:
        """Ask all workers that have work what they wait for; `asked` is empty when all have
        answered. Those that are stopped are not asked."""
        from skate.engine.local.hub.wait_facts import is_stopped

        self._said.clear()
        self.asked.clear()
        for worker in self._state.workers.values():
            busy = worker.allocation is not None or worker.in_flight
            if worker.pid and busy and not is_stopped(worker.pid):
                self.asked.add(worker.number)
                self._outbox.send(worker, m.AskWaits())

    def on_told(
        self,
        worker: WorkerProcess,
        running: Sequence[tuple[int, str, str, str]],
        waits: Sequence[tuple[int, Sequence[int]]],
        calls: Sequence[tuple[int, int, str]],
    ) -> None:
        """Keep what a worker has answered."""
        self.asked.discard(worker.number)
        self._said[worker.number] = m.TellWaits(running, waits, calls)

    def facts(self, entries: Iterable[ObjectEntry]) -> list[Row]:
        """Return why these objects are not there, a row for each: as the hub knows it, and as
        workers have said since `ask`, which is forgotten with this."""
        return self._graph().rows(entries)

    def drawing(self, wanted: Sequence[ObjectEntry]) -> Row:
        """Return who waits for whom, as nodes and edges: behind what the driver wants, what
        workers have, and what is queued."""
        return self._graph().drawing(wanted, self._under_way())

    def _graph(self) -> WaitGraph:
        from skate.engine.local.hub.wait_facts import WaitGraph, process_state

        said, silent = dict(self._said), frozenset(self.asked)
        self._said.clear()
        self.asked.clear()
        return WaitGraph(self._state, self._scheduler.machine, said, silent, process_state)

    def _under_way(self) -> Iterator[HubTask]:
        for worker in self._state.workers.values():
            yield from worker.in_flight.values()
        yield from self._scheduler.first_in_queues()
