"""Stand-ins for processes: workers without sockets, and a record of what the scheduler wants."""

from __future__ import annotations

import itertools
from typing import Any

from skate.engine.local.hub.groups import HubGroup
from skate.engine.local.hub.resources import CPU, UNIT, Demand, ResourcePool
from skate.engine.local.hub.scheduler import Scheduler, Shape
from skate.engine.local.hub.work import ExportedFunction, HubTask, WorkPlan
from skate.engine.local.hub.workers import Environment, WorkerProcess

ONE_CPU: Demand = {CPU: UNIT}

_ids = itertools.count(1)


class Effects:
    """What the scheduler has asked for, in order."""

    def __init__(self) -> None:
        self.started: list[WorkerProcess] = []
        self.sent: list[HubTask] = []
        self.stolen_from: list[WorkerProcess] = []
        self.retired: list[WorkerProcess] = []
        self.ready_groups: list[HubGroup] = []
        self.rests = 0
        self.start_fails: OSError | None = None
        self.not_started_tasks: list[HubTask] = []

    def start(self, environment: Environment, task: HubTask) -> WorkerProcess:
        if self.start_fails is not None:
            raise self.start_fails
        worker = new_worker(environment)
        self.started.append(worker)
        return worker

    def send(self, worker: WorkerProcess, task: HubTask) -> None:
        self.sent.append(task)

    def steal(self, worker: WorkerProcess) -> None:
        self.stolen_from.append(worker)

    def retire(self, worker: WorkerProcess) -> None:
        self.retired.append(worker)

    def group_ready(self, group: HubGroup) -> None:
        self.ready_groups.append(group)

    def rested(self) -> None:
        self.rests += 1

    def not_started(self, task: HubTask, error: OSError) -> None:
        self.not_started_tasks.append(task)


def new_worker(environment: Environment = ()) -> WorkerProcess:
    connection: Any = None
    return WorkerProcess(next(_ids), environment, connection)


def function(window: int = 1) -> ExportedFunction:
    made = ExportedFunction(next(_ids), 0, b"", "f")
    made.window = window
    return made


class Machine:
    """A scheduler on fakes, and the moves that a hub would make."""

    def __init__(self, cpus: float = 2, keep_idle: int = 2, **more: float) -> None:
        total = {CPU: round(cpus * UNIT), **{n: round(a * UNIT) for n, a in more.items()}}
        self.pool = ResourcePool(total)
        self.effects = Effects()
        self.scheduler = Scheduler(self.pool, keep_idle, self.effects)

    @property
    def sent(self) -> list[HubTask]:
        return self.effects.sent

    def shape(self, demand: Demand = ONE_CPU, environment: Environment = ()) -> Shape:
        return self.scheduler.shape(demand, environment)

    def submit(
        self,
        shape: Shape,
        runs: ExportedFunction,
        count: int = 1,
        retries: int = 3,
        parent: int = 0,
        **plan: Any,
    ) -> list[HubTask]:
        plan_of_all = WorkPlan(shape, 1, retries, **plan)
        given = (runs, (0, b""), (), (), plan_of_all, None, parent)
        tasks = [HubTask(next(_ids), *given) for _ in range(count)]
        for task in tasks:
            self.scheduler.enqueue(task)
        return tasks

    def finish(self, task: HubTask) -> None:
        """The worker has answered."""
        worker = task.worker
        assert worker is not None
        del worker.in_flight[task.id]
        self.scheduler.refill(worker)

    def finish_next(self) -> HubTask:
        """The oldest task that was sent and is not answered is answered."""
        task = next(t for t in self.sent if t.worker and t.id in t.worker.in_flight)
        self.finish(task)
        return task


def worker_of(task: HubTask) -> WorkerProcess:
    assert task.worker is not None
    return task.worker
