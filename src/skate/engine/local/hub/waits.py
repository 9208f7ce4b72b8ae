"""Workers that wait for others: their CPUs are free meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.engine.local.hub.scheduler import Scheduler
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.objects import ObjectEntry


class WorkerWaits:
    """Tells the scheduler which workers are blocked."""

    def __init__(self, entries: dict[int, ObjectEntry], scheduler: Scheduler) -> None:
        self._entries = entries
        self._scheduler = scheduler

    def on_blocked(
        self, worker: WorkerProcess, number: int, ids: Sequence[int], missing: int
    ) -> None:
        """Free the CPUs of a worker that waits, unless the answer is on its way already."""
        ready = sum(self._is_told(worker, id) for id in ids)
        if ready < missing:
            worker.waits.add(number)
            self._scheduler.block(worker)

    def _is_told(self, worker: WorkerProcess, id: int) -> bool:
        entry = self._entries.get(id)
        return id == worker.answered if entry is None else entry.kind is not None

    def on_unblocked(self, worker: WorkerProcess, number: int) -> None:
        """Note that a wait is over."""
        if number in worker.waits:
            worker.waits.discard(number)
            self._scheduler.unblock(worker)
