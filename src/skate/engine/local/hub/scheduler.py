"""Which worker runs which task, and when.

Tasks that want the same resources, from the same place, in the same environment share a `Shape`:
one queue. A worker is *leased* to a shape while it has tasks of it: the resources are taken when
the lease begins and given back when it ends, not per task. Functions that are known to be short
are sent several at a time, so that neither side waits for the other.

No input or output here: `start` and `send` are given by the hub (or by a test).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol
from weakref import WeakValueDictionary

from skate.engine.local.hub.groups import HubGroup
from skate.engine.local.hub.resources import CPU, UNIT, Allocation, Demand, ResourcePool
from skate.engine.local.hub.work import HubTask
from skate.engine.local.hub.workers import Environment, WorkerProcess

_FREE_WORKERS = 64  # at most so many at once for tasks that ask for no CPU
_BLOCKED_WORKERS = 8  # beyond the number of CPUs, before what they wait for comes first


class Effects(Protocol):
    """What the scheduler asks the hub to do."""

    def start(self, environment: Environment, task: HubTask) -> WorkerProcess: ...
    def send(self, worker: WorkerProcess, task: HubTask) -> None: ...
    def steal(self, worker: WorkerProcess) -> None: ...
    def retire(self, worker: WorkerProcess) -> None: ...
    def group_ready(self, group: HubGroup) -> None: ...
    def rested(self) -> None: ...
    def not_started(self, task: HubTask, error: OSError) -> None: ...


class Shape:
    """A queue of tasks that any worker of a kind can run."""

    __slots__ = (
        "__weakref__", "bundle", "dedicated", "demand", "environment", "group", "leases",
        "problem", "queue",
    )  # fmt: skip

    def __init__(
        self,
        demand: Demand,
        environment: Environment,
        group: HubGroup | None,
        bundle: int,
        dedicated: bool,
    ) -> None:
        self.demand: Demand = demand
        self.environment: Environment = environment
        self.group: HubGroup | None = group
        self.bundle: int = bundle
        self.dedicated: bool = dedicated  # for actors: each gets a new worker for itself
        self.problem: str | None = None  # why none of its tasks can ever run here
        self.queue: deque[HubTask] = deque()
        self.leases: list[WorkerProcess] = []


class Scheduler:
    """Leases workers to shapes, and gives them tasks."""

    def __init__(
        self,
        machine: ResourcePool,
        keep_idle: int,
        effects: Effects,
        groups: dict[int, HubGroup] | None = None,
        queues: dict[Shape, None] | None = None,
    ) -> None:
        self.machine = machine
        self.groups: dict[int, HubGroup] = {} if groups is None else groups
        self._keep_idle = keep_idle
        self._effects = effects
        self._shapes: WeakValueDictionary[tuple[Any, ...], Shape] = WeakValueDictionary()
        # Those with tasks in their queue, in turn.
        self._waiting: dict[Shape, None] = {} if queues is None else queues
        self._idle: dict[Environment, list[WorkerProcess]] = {}
        self._assigned = 0  # tasks so far

    # -- shapes --------------------------------------------------------------------------------

    def shape(
        self,
        demand: Demand,
        environment: Environment,
        group: HubGroup | None = None,
        bundle: int = -1,
        dedicated: bool = False,
    ) -> Shape:
        wanted = tuple(sorted(demand.items()))
        key = (wanted, environment, group.id if group else 0, bundle, dedicated)
        shape = self._shapes.get(key)
        if shape is None:
            self._shapes[key] = shape = Shape(demand, environment, group, bundle, dedicated)
            if group is not None:
                shape.problem = group.problem
            elif not self.machine.could_ever_fit(demand):
                shape.problem = "this machine does not have that much"
        return shape

    def grow(self, amounts: Demand) -> None:
        """Have more from now on: for what waits, too."""
        self.machine.grow(amounts)
        self._keep_idle = max(self._keep_idle, self.machine.total.get(CPU, 0) // UNIT)
        for shape in self._shapes.values():
            if shape.group is None and self.machine.could_ever_fit(shape.demand):
                shape.problem = None
        self.dispatch_all()

    def shrink(self, amounts: Demand) -> None:
        """Have less from now on. What runs goes on, and what is too much waits for more."""
        self.machine.shrink(amounts)

    # -- tasks ---------------------------------------------------------------------------------

    def enqueue(self, task: HubTask) -> None:
        shape = task.plan.shape
        assert shape is not None
        if task.parent and self._piles_up(shape):
            shape.queue.appendleft(task)
        else:
            shape.queue.append(task)
        self.dispatch(shape)

    @property
    def queued(self) -> int:
        """Return how many tasks wait for a worker."""
        return sum(len(shape.queue) for shape in self._waiting)

    def first_in_queues(self) -> list[HubTask]:
        """Return the tasks that are next, one of each shape."""
        return [shape.queue[0] for shape in self._waiting]

    def _piles_up(self, shape: Shape) -> bool:
        """Return whether many workers wait for others: each task that starts now may be one
        more, so what they wait for goes first. A thousand tasks with one inner task each need
        few processes."""
        limit = self._keep_idle + _BLOCKED_WORKERS
        leases = shape.leases
        return len(leases) > limit and sum(worker.blocked > 0 for worker in leases) > limit

    def requeue(self, task: HubTask) -> None:
        """Enqueue a task again, before the others."""
        shape = task.plan.shape
        assert shape is not None
        task.worker = None
        shape.queue.appendleft(task)
        self._waiting[shape] = None

    def withdraw(self, task: HubTask) -> bool:
        """Take back a task that no worker has; False if one has it."""
        shape = task.plan.shape
        try:
            assert shape is not None
            shape.queue.remove(task)
        except ValueError:
            return False
        self._note_queue(shape)
        return True

    def _note_queue(self, shape: Shape) -> None:
        if shape.queue:
            self._waiting[shape] = None
        else:
            self._waiting.pop(shape, None)

    def dispatch(self, shape: Shape) -> None:
        """Send as many tasks of the shape as can go now."""
        queue = shape.queue
        while queue:
            task = queue.popleft()  # before a worker is started, which may lead back here
            if task.cancelled:
                continue
            try:
                worker = self._worker_for(shape, task)
            except OSError as error:  # there can be no worker for it
                self._effects.not_started(task, error)
                continue
            if worker is None:
                queue.appendleft(task)
                self._waiting[shape] = None
                return
            self._assign(worker, task)
        if self._waiting:
            self._waiting.pop(shape, None)

    def dispatch_all(self) -> None:
        """Give whoever waits a turn, as resources have become free."""
        for group in self.groups.values():
            if group.state == "PENDING" and group.reserve(self.machine):
                self._effects.group_ready(group)
        for shape in sorted(self._waiting, key=self._piles_up):
            before = len(shape.queue)
            self.dispatch(shape)
            if 0 < len(shape.queue) < before:
                del self._waiting[shape]
                self._waiting[shape] = None  # to the end: the next time others come first

    def _worker_for(self, shape: Shape, task: HubTask) -> WorkerProcess | None:
        allocation = self._take(shape)
        if allocation is not None:
            return self._lease(shape, allocation, task)
        if shape.leases and not shape.dedicated:
            least = min(shape.leases, key=_load)
            room = len(least.in_flight) < self._window(task)
            if room and not least.blocked and not least.exclusive and not self._others_wait(least):
                return least
        return None

    def _take(self, shape: Shape) -> Allocation | None:
        if CPU not in shape.demand and not shape.dedicated:
            running = sum(not worker.blocked for worker in shape.leases)
            if running >= _FREE_WORKERS:
                return None
        if shape.group is not None:
            return shape.group.take(shape.demand, shape.bundle)
        return self.machine.take(shape.demand)

    def _lease(self, shape: Shape, allocation: Allocation, task: HubTask) -> WorkerProcess:
        idle = None if shape.dedicated else self._idle.get(shape.environment)
        try:
            worker = idle.pop() if idle else self._effects.start(shape.environment, task)
        except BaseException as error:
            allocation.pool.give_back(allocation)
            if not isinstance(error, OSError):
                self.requeue(task)
            raise
        worker.shape = shape
        worker.allocation = allocation
        worker.since = time.monotonic()
        shape.leases.append(worker)
        return worker

    def _window(self, task: HubTask) -> int:
        """Return how many tasks may be with a worker at once, if this one is to join them."""
        if _goes_alone(task):
            return 1
        assert task.function is not None
        return task.function.window

    def _assign(self, worker: WorkerProcess, task: HubTask) -> None:
        task.worker = worker
        worker.in_flight[task.id] = task
        self._assigned += 1
        worker.order = self._assigned
        worker.exclusive = _goes_alone(task)
        self._effects.send(worker, task)

    # -- workers -------------------------------------------------------------------------------

    def refill(self, worker: WorkerProcess) -> None:
        """Give more to a worker that has answered, or end its lease."""
        shape = worker.shape
        if shape is None or shape.dedicated:
            return
        queue, in_flight = shape.queue, worker.in_flight
        if queue and not worker.blocked and not _used_up(worker) and not self._others_wait(worker):
            while (
                queue
                and len(in_flight) < self._window(queue[0])
                and not (in_flight and worker.exclusive)
            ):
                task = queue.popleft()
                if not task.cancelled:
                    self._assign(worker, task)
            self._note_queue(shape)
        if not in_flight:
            self.end_lease(worker)

    def _others_wait(self, worker: WorkerProcess) -> bool:
        """Return whether tasks of another shape could go if the worker's lease ended."""
        shape, allocation = worker.shape, worker.allocation
        assert shape is not None
        assert allocation is not None
        for other in self._waiting:
            rival = other is not shape and other.group is shape.group
            if rival and allocation.pool.would_fit(other.demand, allocation):
                return True
        return False

    def end_lease(self, worker: WorkerProcess) -> None:
        shape = worker.shape
        self._free(worker)
        if _used_up(worker):
            self._effects.retire(worker)
        else:
            self._rest(worker)
        self.dispatch_all()
        if shape is not None and worker.shape is None:
            self._help_out(shape)

    def _free(self, worker: WorkerProcess) -> None:
        shape, allocation = worker.shape, worker.allocation
        worker.shape = worker.allocation = None
        if shape is not None:
            shape.leases.remove(worker)
        if allocation is not None:
            allocation.pool.give_back(allocation)

    def _rest(self, worker: WorkerProcess) -> None:
        worker.since = time.monotonic()
        idle = self._idle.setdefault(worker.environment, [])
        idle.append(worker)
        if len(idle) > self._keep_idle or worker.environment:
            self._effects.rested()

    def _help_out(self, shape: Shape) -> None:
        """Ask the worker with most tasks to give some back, as another one is idle."""
        loaded = max(shape.leases, key=_load, default=None)
        if loaded is not None and len(loaded.in_flight) > 1 and not loaded.stealing:
            loaded.stealing = True
            self._effects.steal(loaded)

    def gave_back(self, worker: WorkerProcess, task_ids: list[int]) -> None:
        """Enqueue again what the worker has not started and will not."""
        worker.stealing = False
        shape = worker.shape
        for task_id in reversed(task_ids):
            task = worker.in_flight.pop(task_id, None)
            if task is not None:
                self.requeue(task)
        if shape is not None:
            self.dispatch(shape)
            self.refill(worker)

    def block(self, worker: WorkerProcess) -> None:
        """Free the CPUs of a worker of which a thread waits for others."""
        worker.blocked += 1
        if worker.blocked == 1 and worker.allocation is not None:
            worker.allocation.pool.lend_cpu(worker.allocation)
            self.dispatch_all()

    def unblock(self, worker: WorkerProcess) -> None:
        worker.blocked -= 1
        if worker.blocked == 0 and worker.allocation is not None:
            worker.allocation.pool.reclaim_cpu(worker.allocation)

    def remove(self, worker: WorkerProcess) -> list[HubTask]:
        """Free what a dead worker had, and return the tasks that were with it."""
        idle = self._idle.get(worker.environment)
        if idle and worker in idle:
            idle.remove(worker)
        self._free(worker)
        tasks = list(worker.in_flight.values())
        worker.in_flight.clear()
        return tasks

    def surplus(self, older_than: float) -> list[WorkerProcess]:
        """Take out idle workers beyond those worth keeping, and all idle ones of special
        environments."""
        surplus: list[WorkerProcess] = []
        for environment, idle in self._idle.items():
            keep = self._keep_idle if environment == () else 0
            old = [worker for worker in idle if worker.since <= older_than]
            for worker in old[: max(0, len(idle) - keep)]:
                idle.remove(worker)
                surplus.append(worker)
        return surplus

    def dismiss(self, worker: WorkerProcess) -> None:
        """Give no more work to an idle worker that is being ended."""
        self._idle[worker.environment].remove(worker)

    def has_surplus(self) -> bool:
        return any(
            len(idle) > (self._keep_idle if environment == () else 0)
            for environment, idle in self._idle.items()
        )

    def drop_shapes(self, matches: Callable[[Shape], bool]) -> list[HubTask]:
        """Close the shapes (of a removed group) for good; the tasks that waited there."""
        tasks: list[HubTask] = []
        for shape in [shape for shape in self._shapes.values() if matches(shape)]:
            shape.problem = "its placement group was removed"
            tasks += shape.queue
            shape.queue.clear()
            self._waiting.pop(shape, None)
        return tasks


def _goes_alone(task: HubTask) -> bool:
    """Return whether nothing may be with a worker beside it: a death must not concern two of
    them."""
    plan = task.plan
    return bool(task.solo or plan.retries == 0 or plan.max_calls or plan.streaming)


def _load(worker: WorkerProcess) -> int:
    return len(worker.in_flight)


def _used_up(worker: WorkerProcess) -> bool:
    """Return whether max_calls says that the process must be replaced."""
    return worker.ending is not None
