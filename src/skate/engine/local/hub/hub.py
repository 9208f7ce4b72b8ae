"""The hub: connects tasks, actors and objects to processes.

    f.remote() in the driver ─► submit ─► scheduler ─► TASK ─► worker
    get() in the driver      ◄─ complete ◄─ RESULT ◄─────────────┘

Everything here runs in the driver under the engine's lock, on the thread that leads the reactor
or that makes a call. What comes from workers arrives in `received`, in order per worker.
"""

from __future__ import annotations

import sys
from collections import defaultdict, deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate.engine.local import messages as m
from skate.engine.local.hub import errors
from skate.engine.local.hub.lives import Lives
from skate.engine.local.hub.memory_guard import MemoryGuard
from skate.engine.local.hub.processes import Processes
from skate.engine.local.hub.scheduler import Scheduler
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.workers import Worker
from skate.engine.local.objects import FAILED, INLINE
from skate.engine.local.wire import Message

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.hub.groups import Group


class Hub(Lives):
    """All of it: what workers send, what their ends mean, placement groups."""

    def __init__(
        self,
        engine: LocalEngine,
        scheduler: Scheduler,
        processes: Processes,
        guard: MemoryGuard,
    ) -> None:
        super().__init__(engine, scheduler, processes, guard)
        self.removed_groups: deque[Group] = deque(maxlen=1000)  # for those who ask later
        self.handlers = m.by_number(
            {
                m.WorkResult: self.on_result,
                m.WorkResults: self.on_results,
                m.RetryWork: self.on_retry,
                m.Subscribe: self.on_subscribe,
                m.PutValue: self.on_put,
                m.PromiseValues: self.on_promise,
                m.StreamItem: self.on_item,
                m.ActorExiting: self.on_exiting,
                m.Hold: self.counts.hold,
                m.Release: self.counts.release,
                m.Blocked: self.on_blocked,
                m.Unblocked: self.on_unblocked,
                m.GaveBack: self.on_gave_back,
            }
        )

    def received(self, worker: Worker, incoming: Sequence[Message]) -> None:
        """Messages of a worker, in order."""
        for message in incoming:
            try:
                number, fields = message
                self.handlers[number](worker, *fields)
            except Exception:  # a defect must be seen, and must not take the others along
                sys.excepthook(*sys.exc_info())
        while self._answered:
            try:
                self.scheduler.refill(self._answered.pop())
            except Exception:
                sys.excepthook(*sys.exc_info())

    def close(self) -> None:
        """The session ends. Someone may be in the middle of `received`, and print."""
        self.handlers = defaultdict(lambda: _ignore)
        self._answered.clear()

    def worker_lost(self, worker: Worker) -> None:
        """The process is gone, and everything that it had sent has been handled."""
        reason = errors.how_it_ended(worker)
        actor = worker.actor
        if actor is not None and actor.worker is worker:
            self._lose_actor(actor, worker, reason)
        tasks = self.scheduler.remove(worker)
        alone = len(tasks) == 1
        for task in reversed(tasks):
            self._lost_task(worker, task, alone)
        owner_died = errors.packed(exceptions.OwnerDiedError(f"worker {worker.pid}", None, reason))
        for id in worker.promised:
            self._complete(id, FAILED, owner_died, ())
        self.counts.release(worker, list(worker.holds))
        self.counts.drop(worker.loans)
        for key in worker.exported:  # tasks that are under way have theirs
            del self.functions[key]
        worker.options.clear()
        if actor is not None:
            self._lose_maker_of_groups(worker)
        for asking in worker.wants_peer:
            self.processes.send(asking, m.PeerAddress(actor.id, "", False, 0))
        for follow_up in worker.when_lost:
            follow_up()
        self.scheduler.dispatch_all()

    # -- waiting workers --------------------------------------------------------------------

    def on_blocked(self, worker: Worker, number: int, ids: Sequence[int], missing: int) -> None:
        """A worker waits; its CPUs are for others, unless the answer is on its way already."""
        ready = sum(self._is_told(worker, id) for id in ids)
        if ready < missing:
            worker.waits.add(number)
            self.scheduler.block(worker)

    def _is_told(self, worker: Worker, id: int) -> bool:
        entry = self.engine.entries.get(id)
        return id == worker.answered if entry is None else entry.kind is not None

    def on_unblocked(self, worker: Worker, number: int) -> None:
        if number in worker.waits:
            worker.waits.discard(number)
            self.scheduler.unblock(worker)

    # -- groups -----------------------------------------------------------------------------

    def group_ready(self, group: Group) -> None:
        self._complete(group.id, INLINE, NONE, ())

    def _lose_maker_of_groups(self, worker: Worker) -> None:
        """Groups of an actor that was killed go with it: what it began anew would wait for them.
        One that ended as it should may have made them for others."""
        for group in list(self.scheduler.groups.values()):
            if group.maker is worker:
                group.maker = None
                if worker.status != 0:
                    self.remove_group(group.id)

    def remove_group(self, id: int) -> None:
        group = self.scheduler.groups.pop(id, None)
        if group is not None:
            self._empty_group(group)
            group.maker = None
            self.removed_groups.append(group)
            self.counts.drop((id,))
            self.scheduler.dispatch_all()

    def _empty_group(self, group: Group) -> None:
        def inside(shape: Any) -> bool:
            return shape is not None and shape.group is group

        for task in self.scheduler.drop_shapes(inside):
            self.fail(task, errors.packed(errors.group_removed(task)))
        for worker in list(self.processes.workers.values()):
            if inside(worker.shape):
                self._end_in_group(worker)
        if group.state == "CREATED":
            group.give_back(self.scheduler.machine)
        group.state = "REMOVED"
        self._complete(group.id, FAILED, errors.packed(ValueError("the group was removed")), ())

    def _end_in_group(self, worker: Worker) -> None:
        for task in list(worker.in_flight.values()):
            if not task.method:
                worker.in_flight.pop(task.id)
                self.fail(task, errors.packed(errors.ended_with_group(task)))
        if worker.actor is not None:
            worker.actor.stop_reason = "its placement group was removed"
        self.processes.kill(worker)


def _ignore(worker: Worker, *message: Any) -> None:
    pass
