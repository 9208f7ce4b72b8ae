"""ActorPool, and the inside of it that subclasses use."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

import skate
from skate.util import ActorPool
from tests.support import PATIENCE, Flag, local_only, parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
class Worker:
    def double(self, value: int) -> int:
        return 2 * value

    def after(self, flag: Flag, value: int) -> int:
        flag.wait()
        return value

    def fail(self, value: int) -> None:
        raise ValueError(value)

    def die(self, value: int) -> None:
        os._exit(value)

    @skate.method(num_returns=2)
    def both(self, value: int) -> tuple[int, int]:
        return value, -value


def workers(count: int = 2) -> list[Any]:
    return [Worker.remote() for _ in range(count)]


def double(actor: Any, value: int) -> Any:
    return actor.double.remote(value)


def test_map_keeps_the_order() -> None:
    assert list(ActorPool(workers()).map(double, range(10))) == [2 * i for i in range(10)]


def test_map_unordered_gives_every_result() -> None:
    results = ActorPool(workers()).map_unordered(double, range(10))
    assert sorted(results) == [2 * i for i in range(10)]


def test_more_work_than_actors_waits_for_a_free_one() -> None:
    pool = ActorPool(workers(1))
    for value in range(3):
        pool.submit(double, value)
    assert not pool.has_free()
    assert [pool.get_next() for _ in range(3)] == [0, 2, 4]
    assert pool.has_free()
    assert not pool.has_next()


def test_without_work_there_is_nothing_next() -> None:
    pool = ActorPool(workers(1))
    for get_next in (pool.get_next, pool.get_next_unordered):
        with pytest.raises(StopIteration):
            get_next()


@parallel
def test_get_next_after_get_next_unordered_is_refused(flag: Callable[[str], Flag]) -> None:
    pool, gate = ActorPool(workers()), flag("gate")
    pool.submit(lambda actor, value: actor.after.remote(gate, value), 1)
    pool.submit(double, 2)
    assert pool.get_next_unordered(timeout=PATIENCE) == 4
    with pytest.raises(ValueError, match="get_next_unordered"):
        pool.get_next()
    gate.set()
    assert pool.get_next_unordered(timeout=PATIENCE) == 1


def test_a_failed_call_returns_its_actor() -> None:
    pool = ActorPool(workers(1))
    pool.submit(lambda actor, value: actor.fail.remote(value), 7)
    with pytest.raises(ValueError, match="7"):
        pool.get_next()
    assert list(pool.map(double, [1, 2])) == [2, 4]


@local_only
def test_a_dead_actor_does_not_come_back() -> None:
    pool = ActorPool(workers())
    pool.submit(lambda actor, value: actor.die.remote(value), 1)
    with pytest.raises(skate.exceptions.ActorDiedError):
        pool.get_next()
    assert len(pool._idle_actors) == 1
    assert list(pool.map(double, [1, 2, 3])) == [2, 4, 6]


@parallel
def test_a_slow_result_times_out_and_can_be_asked_for_again(
    flag: Callable[[str], Flag],
) -> None:
    pool, gate = ActorPool(workers(1)), flag("gate")
    pool.submit(lambda actor, value: actor.after.remote(gate, value), 5)
    for get_next in (pool.get_next, pool.get_next_unordered):
        with pytest.raises(TimeoutError):
            get_next(timeout=0)
    gate.set()
    assert pool.get_next(timeout=PATIENCE) == 5


@parallel
@pytest.mark.differs_from_ray("get_next_unordered with ignore_if_timedout fails there")
@pytest.mark.parametrize("name", ["get_next", "get_next_unordered"])
def test_a_slow_result_can_be_given_up(name: str, flag: Callable[[str], Flag]) -> None:
    pool, gate = ActorPool(workers(1)), flag("gate")
    pool.submit(lambda actor, value: actor.after.remote(gate, value), 5)
    with pytest.raises(TimeoutError):
        getattr(pool, name)(timeout=0, ignore_if_timedout=True)
    assert not pool.has_next()
    gate.set()
    assert list(pool.map(double, [1])) == [2]


@parallel
def test_unordered_results_come_as_they_are_ready(flag: Callable[[str], Flag]) -> None:
    pool, gate = ActorPool(workers()), flag("gate")
    pool.submit(lambda actor, value: actor.after.remote(gate, value), "slow")
    pool.submit(double, 1)
    assert pool.get_next_unordered(timeout=PATIENCE) == 2
    gate.set()
    assert pool.get_next_unordered(timeout=PATIENCE) == "slow"


@pytest.mark.differs_from_ray("get_next_unordered cannot handle lists of references there")
def test_calls_with_several_results() -> None:
    pool = ActorPool(workers())

    def both(actor: Any, value: int) -> Any:
        return actor.both.remote(value)

    assert list(pool.map(both, [1, 2])) == [[1, -1], [2, -2]]
    assert sorted(pool.map_unordered(both, [1, 2])) == [[1, -1], [2, -2]]
    pool.submit(both, 3)
    assert pool.get_next(timeout=PATIENCE) == [3, -3]


def test_a_new_map_gives_up_results_nobody_asked_for() -> None:
    pool = ActorPool(workers(1))
    pool.map(double, [1, 2, 3])
    assert list(pool.map(double, [4])) == [8]


def test_actors_can_be_taken_out_and_added() -> None:
    first, second = workers()
    pool = ActorPool([first])
    pool.push(second)
    with pytest.raises(ValueError, match="already belongs"):
        pool.push(first)
    assert {pool.pop_idle(), pool.pop_idle()} == {first, second}
    assert pool.pop_idle() is None
    pool.submit(double, 21)
    assert not pool.has_next()
    pool.push(first)
    assert pool.get_next() == 42


class NamedJobs(ActorPool):  # type: ignore[type-arg]
    """Keeps one more item per call and takes results by itself, as client libraries do."""

    def submit(self, fn: Any, value: Any) -> None:
        actor = self._idle_actors.pop()
        future = fn(actor, value[1])
        self._future_to_actor[future] = (self._next_task_index, actor, value[0])  # type: ignore[assignment]
        self._next_task_index += 1

    def submit_job(self, fn: Any, job: tuple[str, int]) -> None:
        if self._idle_actors:
            self.submit(fn, job)
        else:
            self._pending_submits.append((fn, job))

    def take(self) -> tuple[str, int]:
        [future], _ = skate.wait(list(self._future_to_actor), num_returns=1)  # type: ignore[type-var]
        _, actor, name = self._future_to_actor.pop(future)  # type: ignore[misc]
        self._return_actor(actor)
        return name, skate.get(future)


def test_subclasses_can_build_on_the_inside() -> None:
    pool = NamedJobs(workers())
    for number in range(5):
        pool.submit_job(double, (f"job {number}", number))
    assert len(pool._pending_submits) == 3
    results = []
    while pool.has_next():
        results.append(pool.take())
    assert sorted(results) == [(f"job {n}", 2 * n) for n in range(5)]


@pytest.mark.engines("inline")
def test_inline_the_order_is_always_the_same() -> None:
    assert [list(ActorPool(workers()).map_unordered(double, range(6))) for _ in range(3)] == (
        [[0, 2, 4, 6, 8, 10]] * 3
    )
