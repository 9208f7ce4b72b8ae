"""Stand-ins for processes: workers without sockets, and a record of what the scheduler wants."""

from __future__ import annotations

import itertools
from typing import Any

from skate.engine.local.hub.groups import Group
from skate.engine.local.hub.resources import CPU, UNIT, Demand, Pool
from skate.engine.local.hub.scheduler import Scheduler, Shape
from skate.engine.local.hub.work import Function, Plan, Task
from skate.engine.local.hub.workers import Environment, Worker

ONE_CPU: Demand = {CPU: UNIT}

_ids = itertools.count(1)


class Effects:
    """What the scheduler has asked for, in order."""

    def __init__(self) -> None:
        self.started: list[Worker] = []
        self.sent: list[Task] = []
        self.stolen_from: list[Worker] = []
        self.retired: list[Worker] = []
        self.ready_groups: list[Group] = []
        self.rests = 0
        self.start_fails: OSError | None = None
        self.not_started_tasks: list[Task] = []

    def start(self, environment: Environment, task: Task) -> Worker:
        if self.start_fails is not None:
            raise self.start_fails
        worker = new_worker(environment)
        self.started.append(worker)
        return worker

    def send(self, worker: Worker, task: Task) -> None:
        self.sent.append(task)

    def steal(self, worker: Worker) -> None:
        self.stolen_from.append(worker)

    def retire(self, worker: Worker) -> None:
        self.retired.append(worker)

    def group_ready(self, group: Group) -> None:
        self.ready_groups.append(group)

    def rested(self) -> None:
        self.rests += 1

    def not_started(self, task: Task, error: OSError) -> None:
        self.not_started_tasks.append(task)


def new_worker(environment: Environment = ()) -> Worker:
    connection: Any = None
    return Worker(next(_ids), environment, connection)


def function(window: int = 1) -> Function:
    made = Function(next(_ids), 0, b"", "f")
    made.window = window
    return made


class Machine:
    """A scheduler on fakes, and the moves that a hub would make."""

    def __init__(self, cpus: float = 2, keep_idle: int = 2, **more: float) -> None:
        total = {CPU: round(cpus * UNIT), **{n: round(a * UNIT) for n, a in more.items()}}
        self.pool = Pool(total)
        self.effects = Effects()
        self.scheduler = Scheduler(self.pool, keep_idle, self.effects)

    @property
    def sent(self) -> list[Task]:
        return self.effects.sent

    def shape(self, demand: Demand = ONE_CPU, environment: Environment = ()) -> Shape:
        return self.scheduler.shape(demand, environment)

    def submit(
        self,
        shape: Shape,
        runs: Function,
        count: int = 1,
        retries: int = 3,
        parent: int = 0,
        **plan: Any,
    ) -> list[Task]:
        plan_of_all = Plan(shape, 1, retries, **plan)
        given = (runs, (0, b""), (), (), plan_of_all, None, parent)
        tasks = [Task(next(_ids), *given) for _ in range(count)]
        for task in tasks:
            self.scheduler.enqueue(task)
        return tasks

    def finish(self, task: Task) -> None:
        """The worker has answered."""
        worker = task.worker
        assert worker is not None
        del worker.in_flight[task.id]
        self.scheduler.refill(worker)

    def finish_next(self) -> Task:
        """The oldest task that was sent and is not answered is answered."""
        task = next(t for t in self.sent if t.worker and t.id in t.worker.in_flight)
        self.finish(task)
        return task


def worker_of(task: Task) -> Worker:
    assert task.worker is not None
    return task.worker
