"""The life of an actor, and the order of its calls.

    PENDING ──► STARTING ──► ALIVE ──► DEAD
       ▲            │           │
       └─ RESTARTING ◄──────────┘   while restarts are left

Calls are sent as soon as a process is there (STARTING): the socket keeps them behind the
constructor. Until then they wait. Calls from one caller keep their order: one whose arguments are
not there holds up the later ones of the same caller (its *lane*), and nobody else's. Where calls
run concurrently, each has a lane of its own.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

from skate.engine.local.hub.work import HubTask
from skate.engine.local.hub.workers import WorkerProcess
from skate.engine.specs import ActorOptions

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.objects import ObjectEntry

PENDING, STARTING, ALIVE, RESTARTING, DEAD = "PENDING STARTING ALIVE RESTARTING DEAD".split()


class StopReason(NamedTuple):
    """Why an actor ends: in words, and in Ray's word for the end of such a process."""

    why: str
    exit_type: str = "SYSTEM_ERROR"


class HubActor:
    """One actor: its state, and its calls that cannot be sent yet."""

    def __init__(
        self,
        creation: HubTask,
        options: ActorOptions,
        class_name: str,
        meta: Packed,
        concurrent: bool,
    ) -> None:
        self.id: int = creation.id
        self.creation = creation
        self.options = options
        self.class_name = class_name
        self.qualified_name = class_name  # with the functions around the class
        self.meta = meta  # packed ActorMeta, for get_actor
        self.concurrent = concurrent  # several calls at a time: no order to keep
        self.key: tuple[str, str] = ("", "")  # namespace and name
        self.entry: ObjectEntry  # the object that stands for the actor; set by the hub
        self.state = PENDING
        self.worker: WorkerProcess | None = None
        self.restarts: int = 0
        # Calls made and not answered, by the process that made them; None: who cares.
        self.unfinished: dict[int, int] | None = {} if options.max_pending_calls > 0 else None
        self.error: Packed = b""  # why it is dead
        self.stop_reason: StopReason | None = None  # set when it must not be restarted
        self._waiting: deque[HubTask] = deque()
        self._lanes: dict[int, deque[HubTask]] = {}

    @property
    def name(self) -> str | None:
        return self.options.name

    @property
    def at_once(self) -> int:
        """Return how many calls it runs side by side, at the most."""
        settings = self.creation.plan.settings or {}
        groups = settings.get("concurrency_groups") or {}
        return int(settings.get("max_concurrency", 1)) + sum(groups.values())

    # -- calls ---------------------------------------------------------------------------------

    def add_call(self, task: HubTask) -> list[HubTask]:
        """Add a call, and return those that can be sent now, in order."""
        if self.unfinished is not None:
            self.count(task, 1)
        key = self._lane_of(task)
        if not task.missing and key not in self._lanes:
            return self._sendable([task])
        self._lanes.setdefault(key, deque()).append(task)
        return self.advance(task)

    def count(self, task: HubTask, change: int) -> None:
        """Count a call that was made, or answered."""
        if self.unfinished is not None:
            caller = _caller(task)
            count = self.unfinished.pop(caller, 0) + change
            if count:
                self.unfinished[caller] = count

    def _lane_of(self, task: HubTask) -> int:
        return task.id if self.concurrent else _caller(task)

    def advance(self, task: HubTask) -> list[HubTask]:
        """Return the calls that can be sent now that one has its last argument, or has failed."""
        key = self._lane_of(task)
        lane = self._lanes.get(key)
        ready: list[HubTask] = []
        while lane and (lane[0].cancelled or not lane[0].missing):
            task = lane.popleft()
            if not task.cancelled:
                ready.append(task)
        if lane is not None and not lane:
            del self._lanes[key]
        return self._sendable(ready)

    def held_up_by(self, task: HubTask) -> HubTask | None:
        """Return the earlier call of the same caller that a call which was not sent is behind."""
        lane = self._lanes.get(self._lane_of(task))
        return lane[0] if lane and lane[0] is not task else None

    def unsent(self) -> list[HubTask]:
        """Return the calls that no process has got."""
        return [*self._waiting, *(task for lane in self._lanes.values() for task in lane)]

    def _sendable(self, tasks: list[HubTask]) -> list[HubTask]:
        if self.worker is not None and self.state in (STARTING, ALIVE):
            return tasks
        self._waiting.extend(tasks)
        return []

    # -- life ----------------------------------------------------------------------------------

    def placed(self, worker: WorkerProcess) -> list[HubTask]:
        """Note the process that has the constructor, and return the calls that waited for it."""
        self.worker = worker
        self.state = STARTING
        waiting = [task for task in self._waiting if not task.cancelled]
        self._waiting.clear()
        return waiting

    def may_restart(self) -> bool:
        limit = self.options.max_restarts
        return self.stop_reason is None and (limit < 0 or self.restarts < limit)

    def restarting(self, in_flight: list[HubTask]) -> list[HubTask]:
        """Prepare for another process, and return the calls that are lost. While it was
        still being constructed, no call had begun: none is."""
        begun = self.state != STARTING
        self.state = RESTARTING
        self.worker = None
        self.restarts += 1
        lost: list[HubTask] = []
        again: list[HubTask] = []
        for task in in_flight:
            once_more = not task.cancelled and (not begun or task.may_retry())
            (again if once_more else lost).append(task)
        for task in reversed(again):
            task.attempt += begun
            self._waiting.appendleft(task)
        return lost

    def died(self, error: Packed) -> list[HubTask]:
        """Note the end, and return all calls that were not sent."""
        self.state = DEAD
        self.worker = None
        self.error = error
        rest = [task for task in self.unsent() if not task.cancelled]
        self._waiting.clear()
        self._lanes.clear()
        return rest


def _caller(task: HubTask) -> int:
    """Return the number of the process that made the call."""
    return task.owner.number if task.owner else 0
