"""The life of an actor and the order of its calls."""

from __future__ import annotations

from skate.engine.local.hub.actors import (
    ALIVE,
    DEAD,
    PENDING,
    RESTARTING,
    STARTING,
    HubActor,
    StopReason,
)
from skate.engine.local.hub.work import HubTask, WorkPlan
from skate.engine.local.hub.workers import WorkerProcess
from skate.engine.specs import ActorOptions
from tests.local.fakes import function, new_worker

_count = iter(range(1, 1_000_000))


def call(missing: int = 0, owner: WorkerProcess | None = None, retries: int = 0) -> HubTask:
    task = HubTask(next(_count), None, (0, b""), (), (), WorkPlan(None, 1, retries), owner)
    task.method = "m"
    task.missing = missing
    return task


def actor(concurrent: bool = False, max_restarts: int = 0) -> HubActor:
    creation = HubTask(next(_count), function(), (0, b""), (), (), WorkPlan(None, 1, 0), None)
    return HubActor(creation, ActorOptions(max_restarts=max_restarts), "A", b"", concurrent)


def alive(concurrent: bool = False, max_restarts: int = 0) -> HubActor:
    made = actor(concurrent, max_restarts)
    assert made.placed(new_worker()) == []
    made.state = ALIVE
    return made


def came(made: HubActor, task: HubTask) -> list[HubTask]:
    task.missing -= 1
    return made.advance(task)


# -- order -------------------------------------------------------------------------------------


def test_calls_wait_for_a_process_and_go_in_order() -> None:
    made = actor()
    calls = [call() for _ in range(3)]
    assert made.state == PENDING
    assert [made.add_call(task) for task in calls] == [[], [], []]
    assert made.placed(new_worker()) == calls
    assert made.state == STARTING
    last = call()
    assert made.add_call(last) == [last]  # behind the constructor, on the socket


def test_unfinished_calls_are_counted_where_they_are_limited() -> None:
    creation = HubTask(next(_count), function(), (0, b""), (), (), WorkPlan(None, 1, 0), None)
    made = HubActor(creation, ActorOptions(max_pending_calls=2), "A", b"", False)
    first, second = call(), call()
    made.add_call(first)
    made.add_call(second)
    made.count(first, -1)
    assert made.unfinished == {0: 1}
    made.count(second, -1)
    assert made.unfinished == {}
    assert alive().unfinished is None


def test_a_call_without_its_argument_holds_up_the_later_ones() -> None:
    made = alive()
    first, second, third = call(missing=1), call(), call()
    assert made.add_call(first) == made.add_call(second) == made.add_call(third) == []
    assert came(made, first) == [first, second, third]
    fourth = call()
    assert made.add_call(fourth) == [fourth]


def test_arguments_that_come_in_another_order_do_not_change_that_of_the_calls() -> None:
    made = alive()
    first, second = call(missing=2), call(missing=1)
    made.add_call(first)
    made.add_call(second)
    assert came(made, second) == []
    assert came(made, first) == []
    assert came(made, first) == [first, second]


def test_callers_do_not_hold_up_each_other() -> None:
    made = alive()
    one, two = new_worker(), new_worker()
    slow = call(missing=1, owner=one)
    made.add_call(slow)
    from_driver, from_two, behind = call(), call(owner=two), call(owner=one)
    assert made.add_call(from_driver) == [from_driver]
    assert made.add_call(from_two) == [from_two]
    assert made.add_call(behind) == []
    assert came(made, slow) == [slow, behind]


def test_concurrent_calls_do_not_wait_for_each_other() -> None:
    made = alive(concurrent=True)
    slow, quick = call(missing=1), call()
    assert made.add_call(slow) == []
    assert made.add_call(quick) == [quick]
    assert came(made, slow) == [slow]


def test_a_failed_call_holds_up_nobody() -> None:
    made = alive()
    first, second, third = call(missing=1), call(), call(missing=1)
    for task in (first, second, third):
        made.add_call(task)
    first.cancelled = True  # its argument was an error, or it was cancelled
    assert made.advance(first) == [second]
    assert came(made, third) == [third]


def test_cancelled_calls_are_not_sent() -> None:
    made = actor()
    calls = [call() for _ in range(3)]
    for task in calls:
        made.add_call(task)
    calls[1].cancelled = True
    assert made.placed(new_worker()) == [calls[0], calls[2]]


# -- restarts ----------------------------------------------------------------------------------


def test_retried_calls_come_before_the_others_in_order() -> None:
    made = alive(max_restarts=1)
    again = [call(retries=1), call(retries=-1)]
    once = call(retries=0)
    cancelled = call(retries=1)
    cancelled.cancelled = True
    assert made.restarting([again[0], once, cancelled, again[1]]) == [once, cancelled]
    assert made.state == RESTARTING
    later = call()
    assert made.add_call(later) == []
    assert made.placed(new_worker()) == [*again, later]
    assert [task.attempt for task in again] == [1, 1]


def test_calls_are_retried_as_often_as_they_say() -> None:
    made = alive(max_restarts=-1)
    task = call(retries=2)
    for _ in range(2):
        assert made.restarting([task]) == []
        assert made.placed(new_worker()) == [task]
        made.state = ALIVE
    assert made.restarting([task]) == [task]


def test_calls_behind_a_constructor_that_fails_have_not_begun() -> None:
    made = alive(max_restarts=-1)
    task = call(retries=0)
    made.restarting([])
    made.placed(new_worker())
    assert made.state == STARTING
    assert made.restarting([task]) == []
    assert made.placed(new_worker()) == [task]
    assert task.attempt == 0


def test_restarts_are_limited_and_a_wanted_end_is_final() -> None:
    made = alive(max_restarts=1)
    assert made.may_restart()
    made.restarting([])
    assert not made.may_restart()
    endless = alive(max_restarts=-1)
    endless.restarts = 1000
    assert endless.may_restart()
    endless.stop_reason = StopReason("killed")
    assert not endless.may_restart()
    assert not alive().may_restart()


def test_calls_that_still_miss_arguments_survive_a_restart() -> None:
    made = alive(max_restarts=1)
    slow, behind = call(missing=1), call()
    made.add_call(slow)
    made.add_call(behind)
    made.restarting([])
    assert came(made, slow) == []
    assert made.placed(new_worker()) == [slow, behind]


# -- the end -----------------------------------------------------------------------------------


def test_death_hands_back_every_call_that_was_not_sent() -> None:
    waiting = actor()
    calls = [call(), call(missing=1), call()]
    for task in calls:
        waiting.add_call(task)
    assert waiting.died(b"why") == calls
    assert waiting.state == DEAD
    assert waiting.error == b"why"


def test_death_hands_back_concurrent_calls_that_miss_arguments() -> None:
    made = alive(concurrent=True)
    slow = call(missing=1)
    made.add_call(slow)
    assert made.died(b"") == [slow]
    assert came(made, slow) == []
