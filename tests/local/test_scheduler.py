"""Leases, windows, fairness, stealing: the scheduler on fakes."""

from __future__ import annotations

import pytest

from skate.engine.local.hub.groups import HubGroup
from skate.engine.local.hub.resources import CPU, UNIT, to_units
from skate.engine.local.hub.work import ExportedFunction, HubTask
from skate.engine.local.hub.workers import Environment, WorkerProcess
from tests.local.fakes import Effects, Machine, function, worker_of

# -- leases ------------------------------------------------------------------------------------


def test_as_many_workers_as_cpus_and_the_rest_waits_in_order() -> None:
    here = Machine(cpus=2)
    tasks = here.submit(here.shape(), function(), 5)
    assert here.sent == tasks[:2]
    assert len(here.effects.started) == 2
    while len(here.sent) < 5:
        here.finish_next()
    assert here.sent == tasks
    assert len(here.effects.started) == 2  # a lease goes on while there are tasks


def test_resources_come_back_when_the_lease_ends() -> None:
    here = Machine(cpus=2)
    (task,) = here.submit(here.shape(), function())
    assert here.pool.free[CPU] == UNIT
    worker = worker_of(task)
    here.finish(task)
    assert here.pool.free[CPU] == 2 * UNIT
    assert (worker.shape, worker.allocation) == (None, None)
    (again,) = here.submit(here.shape(), function())
    assert again.worker is worker  # it rested, and is used again


def test_the_worker_that_rested_last_is_used_first() -> None:
    here = Machine(cpus=2)
    first, second = here.submit(here.shape(), function(), 2)
    last = worker_of(first)
    here.finish(second)
    here.finish(first)
    assert here.submit(here.shape(), function())[0].worker is last


def test_environments_do_not_share_workers() -> None:
    here = Machine(cpus=1)
    special: Environment = (("env_vars", (("A", "1"),)),)
    (plain,) = here.submit(here.shape(), function())
    here.finish(plain)
    (other,) = here.submit(here.shape(environment=special), function())
    assert other.worker is not plain.worker
    assert worker_of(other).environment == special


def test_impossible_demands_are_known_at_once() -> None:
    here = Machine(cpus=2)
    assert here.shape(to_units({"CPU": 3})).problem is not None
    assert here.shape(to_units({"GPU": 1})).problem is not None
    assert here.shape(to_units({"CPU": 2})).problem is None


def test_a_failing_start_takes_nothing_and_loses_nothing() -> None:
    class Broken(Effects):
        def start(self, environment: Environment, task: HubTask) -> WorkerProcess:
            raise RuntimeError("no process")

    here = Machine(cpus=1)
    working = here.effects
    here.scheduler._effects = Broken()
    with pytest.raises(RuntimeError, match="no process"):
        here.submit(here.shape(), function())
    assert here.pool.free == here.pool.total
    here.scheduler._effects = working
    here.scheduler.dispatch_all()
    assert len(here.sent) == 1


def test_a_task_that_can_have_no_worker_takes_nothing_and_holds_up_nobody() -> None:
    here = Machine(cpus=2)
    here.effects.start_fails = OSError("too many open files")
    (unlucky,) = here.submit(here.shape(), function())
    assert here.effects.not_started_tasks == [unlucky]
    assert here.pool.free == here.pool.total
    here.effects.start_fails = None
    (lucky,) = here.submit(here.shape(), function())
    assert here.sent == [lucky]


def test_starting_a_worker_may_lead_back_into_dispatching() -> None:
    """Starting one may show that a fork server is gone, and with it workers that had tasks."""

    class Reentrant(Effects):
        def start(self, environment: Environment, task: HubTask) -> WorkerProcess:
            here.scheduler.dispatch_all()
            return super().start(environment, task)

    here = Machine(cpus=4)
    here.effects = here.scheduler._effects = Reentrant()
    shape = here.shape()
    tasks = [here.submit(shape, function())[0] for _ in range(2)]
    assert sorted(task.id for task in here.sent) == [task.id for task in tasks]
    assert here.pool.free[CPU] == 2 * UNIT


# -- fairness ----------------------------------------------------------------------------------


@pytest.mark.parametrize("window", [1, 8])
def test_a_long_queue_does_not_starve_other_shapes(window: int) -> None:
    here = Machine(cpus=1)
    many = here.submit(here.shape(), function(window), 100)
    (other,) = here.submit(here.shape(to_units({"CPU": 0.5})), function())
    for _ in range(2 * window + 2):
        if other in here.sent:
            break
        here.finish_next()
    assert other in here.sent
    while many[-1] not in here.sent:
        here.finish_next()


def test_shapes_take_turns() -> None:
    here = Machine(cpus=1)
    shapes = [here.shape(to_units({"CPU": cpus})) for cpus in (1, 0.9, 0.8)]
    queues = [here.submit(shape, function(), 4) for shape in shapes]
    turns = {task: number for number, tasks in enumerate(queues) for task in tasks}
    for _ in range(12):
        here.finish_next()
    # The first shape was leased before the others came; from then on they go round.
    assert [turns[task] for task in here.sent] == [0, 0, 1, 2, 0, 1, 2, 0, 1, 2, 1, 2]


def test_new_short_tasks_do_not_prolong_a_lease_that_others_need() -> None:
    here = Machine(cpus=1)
    short = function(8)
    shape = here.shape()
    here.submit(shape, short, 2)
    (other,) = here.submit(here.shape(to_units({"CPU": 0.5})), function())
    for _ in range(10):
        here.submit(shape, short)
        here.finish_next()
    assert other in here.sent


def test_shapes_that_wait_for_something_else_do_not_hinder_pipelining() -> None:
    here = Machine(cpus=1, GPU=1)
    (on_gpu, _) = here.submit(here.shape(to_units({"GPU": 1})), function(), 2)
    tasks = here.submit(here.shape(), function(8), 8)
    assert here.sent == [on_gpu, *tasks]


# -- windows -----------------------------------------------------------------------------------


def test_short_functions_are_sent_ahead_up_to_their_window() -> None:
    here = Machine(cpus=2)
    tasks = here.submit(here.shape(), function(4), 20)
    assert here.sent == tasks[:8]
    assert sorted(len(worker.in_flight) for worker in here.effects.started) == [4, 4]
    here.finish_next()
    assert here.sent == tasks[:9]


def test_unknown_functions_go_one_by_one() -> None:
    here = Machine(cpus=1)
    assert ExportedFunction(1, 0, b"", "f").window == 1
    tasks = here.submit(here.shape(), ExportedFunction(1, 0, b"", "f"), 3)
    assert here.sent == tasks[:1]


def test_windows_follow_the_running_time() -> None:
    learning = ExportedFunction(1, 0, b"", "f")
    learning.ran(10)
    assert learning.window == 64
    learning.ran(100_000)
    assert learning.window == 1
    for _ in range(100):
        learning.ran(99)
    assert 15 <= learning.window <= 20


def test_what_must_not_run_twice_is_never_behind_another() -> None:
    here = Machine(cpus=1)
    shape, short = here.shape(), function(8)
    tasks = here.submit(shape, short, 2) + here.submit(shape, short, 1, retries=0)
    assert here.sent == tasks[:2]
    here.finish(tasks[0])
    assert here.sent == tasks[:2]
    here.finish(tasks[1])
    assert here.sent == tasks
    behind = here.submit(shape, short)
    assert behind[0] not in here.sent
    here.finish(tasks[2])
    assert here.sent[-1:] == behind


@pytest.mark.parametrize("plan", [{"max_calls": 5}, {"streaming": True}])
def test_what_may_need_the_worker_for_itself_goes_alone(plan: dict[str, int]) -> None:
    here = Machine(cpus=1)
    tasks = here.submit(here.shape(), function(8), 3, **plan)
    assert here.sent == tasks[:1]


def test_a_suspect_goes_alone() -> None:
    here = Machine(cpus=1)
    shape, short = here.shape(), function(8)
    tasks = here.submit(shape, short, 3)
    lost = here.scheduler.remove(worker_of(tasks[0]))
    assert lost == tasks
    here.sent.clear()
    for task in reversed(lost):
        task.solo = True
        here.scheduler.requeue(task)
    here.scheduler.dispatch_all()
    assert here.sent == tasks[:1]
    here.finish(tasks[0])
    assert here.sent == tasks[:2]


# -- stealing ----------------------------------------------------------------------------------


def test_an_idle_worker_makes_a_loaded_one_give_back_in_order() -> None:
    here = Machine(cpus=2)
    tasks = here.submit(here.shape(), function(4), 8)
    loaded, other = here.effects.started
    for task in list(other.in_flight.values()):
        here.finish(task)
    assert here.effects.stolen_from == [loaded]
    here.finish(next(iter(loaded.in_flight.values())))
    assert here.effects.stolen_from == [loaded]  # not again before it has answered
    here.sent.clear()
    back = list(loaded.in_flight)[1:]
    here.scheduler.gave_back(loaded, back)
    assert [task.id for task in here.sent] == back
    assert here.sent[0].worker is other
    assert set(here.sent) <= set(tasks)
    assert not loaded.stealing


def test_unknown_tasks_in_an_answer_to_a_steal_are_ignored() -> None:
    here = Machine(cpus=1)
    first, second = here.submit(here.shape(), function(4), 2)
    worker = worker_of(first)
    here.scheduler.gave_back(worker, [12345])
    assert list(worker.in_flight.values()) == [first, second]


def test_a_worker_that_gave_back_everything_keeps_no_resources() -> None:
    here = Machine(cpus=2)
    here.submit(here.shape(), function(2), 4)
    giver, other = here.effects.started
    for worker, count in ((other, 2), (giver, 1)):
        for task in list(worker.in_flight.values())[:count]:
            here.finish(task)
    assert here.effects.stolen_from == [giver]
    (last,) = giver.in_flight.values()
    here.scheduler.gave_back(giver, [last.id])
    assert last.worker is other
    assert giver.allocation is None
    assert here.pool.free[CPU] == UNIT


def test_a_task_given_back_by_its_only_worker_comes_again() -> None:
    here = Machine(cpus=1)
    first, second = here.submit(here.shape(), function(4), 2)
    worker = worker_of(first)
    here.scheduler.block(worker)
    here.sent.clear()
    here.scheduler.gave_back(worker, [second.id])
    assert here.sent == [second]
    assert second.worker is not worker


# -- blocking ----------------------------------------------------------------------------------


def test_a_blocked_worker_lends_its_cpu() -> None:
    here = Machine(cpus=1)
    parent, child = here.submit(here.shape(), function(), 2)
    worker = worker_of(parent)
    here.scheduler.block(worker)
    assert here.sent == [parent, child]
    assert child.worker is not worker
    here.scheduler.unblock(worker)
    assert here.pool.free[CPU] == -UNIT
    here.finish(child)
    here.finish(parent)
    assert here.pool.free == here.pool.total


def test_nested_blocking_never_runs_out_of_workers() -> None:
    here = Machine(cpus=2)
    for depth in range(50):
        (task,) = here.submit(here.shape(), function())
        assert task in here.sent, depth
        here.scheduler.block(worker_of(task))
    for task in reversed(list(here.sent)):
        here.scheduler.unblock(worker_of(task))
        here.finish(task)
    assert here.pool.free == here.pool.total


def test_two_blocked_threads_of_a_worker_lend_once() -> None:
    here = Machine(cpus=1)
    (task,) = here.submit(here.shape(), function())
    worker = worker_of(task)
    here.scheduler.block(worker)
    here.scheduler.block(worker)
    assert here.pool.free[CPU] == UNIT
    here.scheduler.unblock(worker)
    assert here.pool.free[CPU] == UNIT
    here.scheduler.unblock(worker)
    assert here.pool.free[CPU] == 0


def test_nothing_is_sent_behind_a_blocked_task() -> None:
    here = Machine(cpus=1)
    tasks = here.submit(here.shape(), function(4), 1)
    worker = worker_of(tasks[0])
    here.scheduler.block(worker)
    tasks += here.submit(here.shape(), function(4), 2)
    assert list(worker.in_flight.values()) == tasks[:1]


def test_a_blocked_worker_that_dies_gives_back_once() -> None:
    here = Machine(cpus=1)
    (task,) = here.submit(here.shape(), function())
    here.scheduler.block(worker_of(task))
    assert here.scheduler.remove(worker_of(task)) == [task]
    assert here.pool.free == here.pool.total


# -- without CPUs ------------------------------------------------------------------------------


def test_tasks_without_cpus_have_a_limit_of_their_own() -> None:
    here = Machine(cpus=1)
    shape = here.shape({})
    here.submit(shape, function(), 100)
    assert len(here.effects.started) == 64
    here.scheduler.block(here.effects.started[0])
    assert len(here.effects.started) == 65


def test_tasks_without_cpus_have_a_limit_in_groups_too() -> None:
    here = Machine(cpus=1)
    group = HubGroup(1, [{"CPU": 1}], "PACK", "")
    assert group.reserve(here.pool)
    here.submit(here.scheduler.shape({}, (), group), function(), 100)
    assert len(here.effects.started) == 64


def test_actors_without_cpus_have_none_and_each_gets_a_worker() -> None:
    here = Machine(cpus=1)
    dedicated = here.scheduler.shape({}, (), dedicated=True)
    here.submit(dedicated, function(64), 100, retries=0)
    assert len(here.effects.started) == 100


def test_an_actor_never_gets_a_used_worker() -> None:
    here = Machine(cpus=1)
    (task,) = here.submit(here.shape(), function())
    used = worker_of(task)
    here.finish(task)
    (creation,) = here.submit(here.scheduler.shape({}, (), dedicated=True), function())
    assert creation.worker is not used


# -- ends --------------------------------------------------------------------------------------


def test_a_used_up_worker_is_retired_and_replaced() -> None:
    here = Machine(cpus=1)
    first, second = here.submit(here.shape(), function(), 2, max_calls=1)
    worker = worker_of(first)
    worker.ending = "max_calls"
    here.finish(first)
    assert here.effects.retired == [worker]
    assert second.worker is not worker
    assert here.sent == [first, second]


def test_tasks_that_wait_for_inner_ones_do_not_pile_up() -> None:
    here = Machine(cpus=1, keep_idle=1)
    here.submit(here.shape(), function(), 100)
    outer: dict[int, HubTask] = {}
    for task in here.sent:  # which grows meanwhile
        if task.parent:
            here.finish(task)
            here.scheduler.unblock(worker_of(outer[task.parent]))
            here.finish(outer[task.parent])
        else:
            outer[task.id] = task
            here.submit(here.shape(), function(), parent=task.id)
            here.scheduler.block(worker_of(task))
    assert len(here.sent) == 200
    assert len(here.effects.started) < 30


def test_what_was_impossible_is_possible_once_there_is_more() -> None:
    here = Machine(cpus=1)
    shape = here.shape(to_units({"CPU": 2}))
    assert shape.problem is not None
    here.scheduler.grow(to_units({"CPU": 1}))
    assert shape.problem is None
    (task,) = here.submit(shape, function())
    assert task.worker is not None


def test_withdrawn_tasks_never_run() -> None:
    here = Machine(cpus=1)
    first, second, third = here.submit(here.shape(), function(), 3)
    assert here.scheduler.withdraw(second)
    assert not here.scheduler.withdraw(second)
    assert not here.scheduler.withdraw(first)  # a worker has it
    here.finish(first)
    assert here.sent == [first, third]


def test_what_a_dead_worker_had_comes_before_the_others_in_order() -> None:
    here = Machine(cpus=1)
    tasks = here.submit(here.shape(), function(3), 6)
    lost = here.scheduler.remove(worker_of(tasks[0]))
    here.sent.clear()
    for task in reversed(lost):
        here.scheduler.requeue(task)
    here.scheduler.dispatch_all()
    while len(here.sent) < 6:
        here.finish_next()
    assert here.sent == tasks


def test_a_dead_idle_worker_is_not_used_again() -> None:
    here = Machine(cpus=1)
    (task,) = here.submit(here.shape(), function())
    worker = worker_of(task)
    here.finish(task)
    assert here.scheduler.remove(worker) == []
    assert here.submit(here.shape(), function())[0].worker is not worker


def test_an_idle_worker_that_is_being_ended_gets_no_more_work() -> None:
    """The guard of the memory ends those that hold much; their end is heard of later."""
    here = Machine(cpus=1)
    (task,) = here.submit(here.shape(), function())
    worker = worker_of(task)
    here.finish(task)
    here.scheduler.dismiss(worker)
    (next_task,) = here.submit(here.shape(), function())
    assert worker_of(next_task) is not worker


def test_surplus_is_what_is_old_and_beyond_those_worth_keeping() -> None:
    here = Machine(cpus=3, keep_idle=1)
    special: Environment = (("threads", 2),)
    tasks = here.submit(here.shape(), function(), 2)
    tasks += here.submit(here.shape(environment=special), function())
    plain, odd = here.effects.started[:2], here.effects.started[2]
    here.finish(tasks[0])
    assert not here.scheduler.has_surplus()
    here.finish(tasks[1])
    here.finish(tasks[2])
    assert here.effects.rests == 2
    assert here.scheduler.has_surplus()
    assert here.scheduler.surplus(older_than=0.0) == []
    assert here.scheduler.surplus(older_than=float("inf")) == [plain[0], odd]
    assert not here.scheduler.has_surplus()
