"""What follows from the end of a worker."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate import exceptions
from skate.engine.local import messages as m
from skate.engine.local.hub import errors
from skate.engine.local.objects import FAILED

if TYPE_CHECKING:
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.functions import Functions
    from skate.engine.local.hub.lifecycle import ActorLifecycle
    from skate.engine.local.hub.placement import PlacementGroups
    from skate.engine.local.hub.scheduler import Scheduler
    from skate.engine.local.hub.segments import Segments
    from skate.engine.local.hub.tasks import TaskLifecycle
    from skate.engine.local.hub.values import Values
    from skate.engine.local.hub.workers import WorkerProcess


class WorkerLosses:
    """Retries, restarts and errors for what was with workers that are gone."""

    def __init__(
        self,
        values: Values,
        counts: Counts,
        segments: Segments,
        functions: Functions,
        scheduler: Scheduler,
        outbox: WorkerOutbox,
        tasks: TaskLifecycle,
        lifecycle: ActorLifecycle,
        placement: PlacementGroups,
    ) -> None:
        self._values = values
        self._counts = counts
        self._segments = segments
        self._functions = functions
        self._scheduler = scheduler
        self._outbox = outbox
        self._tasks = tasks
        self._lifecycle = lifecycle
        self._placement = placement

    def lose(self, worker: WorkerProcess) -> None:
        """Clear up after a process that is gone, when all that it had sent has been handled."""
        reason = errors.how_it_ended(worker)
        actor = worker.actor
        if actor is not None and actor.worker is worker:
            self._lifecycle.lose(actor, worker, reason)
        self._tasks.lose_all(worker)
        self._lifecycle.lose_creator(worker)
        owner_died = errors.packed(exceptions.OwnerDiedError(f"worker {worker.pid}", None, reason))
        for id in worker.promised:
            self._values.complete(id, FAILED, owner_died)
        self._counts.release(worker, list(worker.holds))
        self._counts.drop(worker.loans)
        self._functions.drop_exports(worker)
        worker.options.clear()
        if actor is not None:
            self._placement.lose_maker(worker)
            for asking in worker.wants_peer:
                self._outbox.send(asking, m.PeerAddress(actor.id, "", False, 0))
        for follow_up in worker.when_lost:
            follow_up()
        self._scheduler.dispatch_all()
        self._segments.delete_free_ones(worker.number, self._functions.segments_in_use())
