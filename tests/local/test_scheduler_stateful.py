"""The scheduler and the order of actor calls, against models, in random order, with deaths."""

from __future__ import annotations

import itertools

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from skate.engine.local.hub.actors import ALIVE, DEAD, HubActor
from skate.engine.local.hub.resources import CPU, UNIT
from skate.engine.local.hub.work import HubTask, WorkPlan
from skate.engine.local.hub.workers import WorkerProcess
from skate.engine.specs import ActorOptions
from tests.local.fakes import Machine, function, new_worker
from tests.local.machines import BOUNDED

CPUS = 3


class SchedulerMachine(RuleBasedStateMachine):
    """Tasks of several shapes; workers answer, wait, give back and die."""

    @initialize()
    def begin(self) -> None:
        self.machine = Machine(cpus=CPUS)
        self.shapes = [self.machine.shape({CPU: n * UNIT}) for n in (1, 2, 3)]
        self.runs = [function(window=1), function(window=4)]
        self.tasks: list[HubTask] = []
        self.done: set[int] = set()

    def workers(self) -> list[WorkerProcess]:
        return [worker for worker in self.machine.effects.started if worker.shape is not None]

    def choose(self, number: int, workers: list[WorkerProcess]) -> WorkerProcess:
        return workers[number % len(workers)]

    @rule(
        shape=st.integers(0, 2),
        runs=st.integers(0, 1),
        count=st.integers(1, 6),
        retries=st.sampled_from([0, 3]),
    )
    def submit(self, shape: int, runs: int, count: int, retries: int) -> None:
        self.tasks += self.machine.submit(self.shapes[shape], self.runs[runs], count, retries)

    @precondition(lambda self: self.workers())
    @rule(number=st.integers(0, 20))
    def answer(self, number: int) -> None:
        worker = self.choose(number, self.workers())
        if worker.blocked:
            self.machine.scheduler.unblock(worker)
        task = next(iter(worker.in_flight.values()))
        self.done.add(task.id)
        self.machine.finish(task)

    @precondition(lambda self: any(not worker.blocked for worker in self.workers()))
    @rule(number=st.integers(0, 20))
    def block(self, number: int) -> None:
        worker = self.choose(number, [w for w in self.workers() if not w.blocked])
        self.machine.scheduler.gave_back(worker, list(worker.in_flight)[1:])
        if worker.shape is not None:
            self.machine.scheduler.block(worker)

    @precondition(lambda self: any(worker.blocked for worker in self.workers()))
    @rule(number=st.integers(0, 20))
    def unblock(self, number: int) -> None:
        self.machine.scheduler.unblock(
            self.choose(number, [w for w in self.workers() if w.blocked])
        )

    @precondition(lambda self: self.workers())
    @rule(number=st.integers(0, 20))
    def die(self, number: int) -> None:
        scheduler = self.machine.scheduler
        worker = self.choose(number, self.workers())
        self.machine.effects.started.remove(worker)
        for task in reversed(scheduler.remove(worker)):
            task.solo = True
            scheduler.requeue(task)
        scheduler.dispatch_all()

    @rule(number=st.integers(0, 1000))
    def cancel(self, number: int) -> None:
        waiting = [task for task in self.tasks if task.worker is None and not task.cancelled]
        if waiting:
            task = waiting[number % len(waiting)]
            task.cancelled = True
            self.done.add(task.id)

    @invariant()
    def no_cpu_is_lost_or_found(self) -> None:
        held = [w.allocation for w in self.workers() if w.allocation is not None]
        taken = sum(allocation.demand[CPU] - allocation.lent_cpu for allocation in held)
        assert self.machine.pool.free[CPU] + taken == CPUS * UNIT

    @invariant()
    def only_who_waits_lends(self) -> None:
        for worker in self.workers():
            assert worker.allocation is not None
            assert bool(worker.allocation.lent_cpu) == bool(worker.blocked)

    @invariant()
    def every_task_is_in_one_place(self) -> None:
        running = [id for worker in self.workers() for id in worker.in_flight]
        queued = [t.id for shape in self.shapes for t in shape.queue if not t.cancelled]
        assert sorted([*running, *queued]) == sorted(
            task.id for task in self.tasks if task.id not in self.done
        )

    @invariant()
    def who_may_not_run_twice_is_alone(self) -> None:
        for worker in self.workers():
            alone = [t for t in worker.in_flight.values() if t.solo or t.plan.retries == 0]
            assert not alone or len(worker.in_flight) == 1

    @invariant()
    def cpus_do_not_idle_while_tasks_wait(self) -> None:
        for shape in self.shapes:
            waits = any(not task.cancelled for task in shape.queue)
            assert not waits or self.machine.pool.free[CPU] < shape.demand[CPU]

    def teardown(self) -> None:
        """Whatever has happened, all work is done in the end."""
        while any(task.id not in self.done for task in self.tasks):
            self.answer(0)


class ActorMachine(RuleBasedStateMachine):
    """Calls of several callers, whose arguments come late, and an actor that dies in between."""

    @initialize(restarts=st.integers(0, 3), retries=st.sampled_from([0, -1]))
    def begin(self, restarts: int, retries: int) -> None:
        self.numbers = itertools.count(1)
        creation = HubTask(0, function(), (0, b""), (), (), WorkPlan(None, 1, 0), None)
        self.actor = HubActor(creation, ActorOptions(max_restarts=restarts), "A", b"", False)
        self.retries = retries
        self.callers = [new_worker() for _ in range(2)]
        self.calls: list[HubTask] = []
        self.sent: list[HubTask] = []  # to the process that lives now, in order
        self.answered: set[int] = set()
        self.failed: set[int] = set()

    def send(self, tasks: list[HubTask]) -> None:
        for task in tasks:
            assert task not in self.sent
            assert not task.missing
            assert not task.cancelled
        self.sent += tasks

    def fail(self, tasks: list[HubTask]) -> None:
        for task in tasks:
            assert task.id not in self.failed
            task.cancelled = True
            self.failed.add(task.id)
            if self.actor.state != DEAD:
                self.send(self.actor.advance(task))

    @precondition(lambda self: self.actor.state != DEAD)
    @rule(caller=st.integers(0, 1), missing=st.integers(0, 1))
    def call(self, caller: int, missing: int) -> None:
        plan = WorkPlan(None, 1, self.retries)
        owner = self.callers[caller]
        task = HubTask(next(self.numbers), None, (0, b""), (), (), plan, owner)
        task.method, task.missing = "m", missing
        self.calls.append(task)
        self.send(self.actor.add_call(task))

    @rule(number=st.integers(0, 100))
    def argument_comes(self, number: int) -> None:
        waiting = [task for task in self.calls if task.missing and not task.cancelled]
        if waiting and self.actor.state != DEAD:
            task = waiting[number % len(waiting)]
            task.missing = 0
            self.send(self.actor.advance(task))

    @rule(number=st.integers(0, 100))
    def argument_fails(self, number: int) -> None:
        waiting = [task for task in self.calls if task.missing and not task.cancelled]
        if waiting and self.actor.state != DEAD:
            self.fail([waiting[number % len(waiting)]])

    @precondition(lambda self: self.actor.worker is None and self.actor.state != DEAD)
    @rule()
    def place(self) -> None:
        self.sent = []
        self.send(self.actor.placed(new_worker()))

    @precondition(lambda self: self.actor.worker is not None)
    @rule()
    def constructed(self) -> None:
        self.actor.state = ALIVE

    @precondition(lambda self: self.actor.state == ALIVE)
    @rule()
    def answer(self) -> None:
        if self.sent:
            self.answered.add(self.sent.pop(0).id)

    @precondition(lambda self: self.actor.worker is not None)
    @rule()
    def die(self) -> None:
        in_flight, self.sent = self.sent, []
        if self.actor.may_restart():
            self.fail(self.actor.restarting(in_flight))
        else:
            rest = self.actor.died(b"")
            self.fail([*in_flight, *rest])

    @invariant()
    def calls_of_one_caller_keep_their_order(self) -> None:
        for caller in self.callers:
            own = [task.id for task in self.sent if task.owner is caller]
            assert own == sorted(own)

    @invariant()
    def nothing_is_lost(self) -> None:
        over = self.answered | self.failed
        assert not self.answered & self.failed
        if self.actor.state == DEAD:
            assert over == {task.id for task in self.calls}

    def teardown(self) -> None:
        """What has its arguments is answered or has failed in the end."""
        if self.actor.state == DEAD:
            return
        if self.actor.worker is None:
            self.place()
        self.constructed()
        while any(task.missing and not task.cancelled for task in self.calls):
            self.argument_comes(0)
        while self.sent:
            self.answer()
        assert self.answered | self.failed == {task.id for task in self.calls}


TestScheduler = SchedulerMachine.TestCase
TestActors = ActorMachine.TestCase
TestScheduler.settings = TestActors.settings = BOUNDED
