"""Places of replicas that all processes share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve._identity import NAMESPACE, DeploymentID
from skate.serve._replica import deployment_actors
from skate.serve.config import DeploymentActorConfig, RequestRouterConfig
from skate.serve.experimental.capacity_queue import CapacityQueue
from skate.serve.experimental.capacity_queue_router import CapacityQueueRouter
from skate.serve.experimental.capacity_queue_router import _find as find_queue
from skate.serve.request_router import PendingRequest, RequestMetadata
from tests.support import PATIENCE, Flag, eventually

Run = Callable[..., Any]
ID = DeploymentID("Named", "default")
Queue: Any = CapacityQueue.__ray_actor_class__


def queue(*capacities: int, patience: float = 30, token_ttl_s: float | None = None) -> Any:
    made = Queue(patience, token_ttl_s, _enable_long_poll=False)
    for number, capacity in enumerate(capacities):
        made.register_replica(f"r{number}", capacity)
    return made


def test_the_least_busy_replica_is_next() -> None:
    async def main() -> None:
        places = queue(2, 2)
        assert {await places.acquire(), await places.acquire()} == {"r0", "r1"}
        await places.acquire()
        await places.acquire()
        assert places.get_replica_in_flight() == {"r0": (2, 2), "r1": (2, 2)}
        places.release("r1")
        assert await places.acquire() == "r1"
        places.unregister_replica("r0")
        places.release("r0")  # of a replica that is gone
        stats = places.get_stats()
        assert (stats.num_replicas, stats.total_capacity, stats.total_in_flight) == (1, 2, 2)
        assert (stats.total_acquires, stats.total_releases, stats.queue_size) == (5, 2, 0)

    asyncio.run(main())


def test_who_came_first_has_the_next_place() -> None:
    async def main() -> None:
        places = queue()
        waiting = [asyncio.create_task(places.acquire()) for _ in range(3)]
        await asyncio.sleep(0)
        assert (places.get_num_waiters(), places.get_stats().max_waiters_seen) == (3, 3)
        waiting[0].cancel()
        with suppress(asyncio.CancelledError):
            await waiting[0]
        places.register_replica("r", 1)
        assert await waiting[1] == "r"
        assert not waiting[2].done()
        places.release("r")
        assert await waiting[2] == "r"
        assert (places.get_num_waiters(), places.get_queue_length()) == (0, 0)

    asyncio.run(main())


def test_a_place_that_comes_with_the_cancellation_is_not_lost() -> None:
    async def main() -> None:
        places = queue()
        waiting = asyncio.create_task(places.acquire())
        await asyncio.sleep(0)
        places.register_replica("r", 1)
        waiting.cancel()
        with suppress(asyncio.CancelledError):
            await waiting
        assert places.get_queue_length() == 1

    asyncio.run(main())


def test_a_place_that_is_free_after_the_cancellation_is_the_next_ones() -> None:
    async def main() -> None:
        places = queue(1)
        await places.acquire()
        first, second = (asyncio.create_task(places.acquire()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        places.release("r0")  # before the first is told
        with pytest.raises(asyncio.CancelledError):
            await first
        assert await second == "r0"
        assert places.get_num_waiters() == 0

    asyncio.run(main())


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ((-1,), "acquire_timeout_s takes a number of seconds, 0 or more; got -1"),
        ((None,), "acquire_timeout_s takes"),
        ((1, 0), "token_ttl_s takes None or a number of seconds above 0; got 0"),
        ((1, "2"), "token_ttl_s takes"),
    ],
)
def test_what_is_no_time_is_refused(arguments: tuple[Any, ...], text: str) -> None:
    with pytest.raises((TypeError, ValueError), match=text):
        Queue(*arguments, _enable_long_poll=False)


def test_without_a_place_in_time_there_is_no_answer() -> None:
    async def main() -> None:
        places = queue(patience=0.01)
        assert await places.acquire() is None
        assert await places.acquire(timeout_s=0) is None
        assert places.get_stats().total_timeouts == 2

    asyncio.run(main())


def test_places_that_nobody_gives_back_are_free_in_the_end() -> None:
    async def main() -> None:
        places = queue(1, token_ttl_s=0.05)
        assert await places.acquire() == "r0"
        assert await places.acquire() == "r0"  # when the time of the first is over
        places.release("r0")
        places.release("r0")
        assert places.get_queue_length() == 1

    asyncio.run(main())


def app(**options: Any) -> Any:
    queued = DeploymentActorConfig(
        name="places",
        actor_class=CapacityQueue,
        init_kwargs={"acquire_timeout_s": 0.5},
        actor_options={"num_cpus": 0},
    )
    router = RequestRouterConfig(
        request_router_class=CapacityQueueRouter,
        request_router_kwargs={"capacity_queue_actor_name": "places"},
    )
    shared = {"deployment_actors": [queued], "request_router_config": router}
    return serve.deployment(Named, **shared | options).bind()


class Named:
    def __call__(self, wait_for: Flag | None = None) -> str:
        if wait_for is not None:
            wait_for.wait()
        return serve.get_replica_context().replica_id.unique_id


def the_queue() -> Any:
    (key,) = deployment_actors.find_all()
    return skate.get_actor(str(key), namespace=NAMESPACE)


def stats() -> Any:
    return skate.get(the_queue().get_stats.remote())


def test_requests_take_places_and_give_them_back(run: Run, flag: Callable[[str], Flag]) -> None:
    handle = run(app(num_replicas=2, max_ongoing_requests=1))
    eventually(lambda: stats().num_replicas == 2)
    go = flag("go")
    first, second = handle.remote(go), handle.remote(go)
    eventually(lambda: stats().total_in_flight == 2)
    third = handle.remote()
    eventually(lambda: stats().num_waiters == 1)
    fourth = handle.remote()
    eventually(lambda: stats().num_waiters == 2)
    fourth.cancel()
    eventually(lambda: stats().num_waiters == 1)
    go.set()
    assert first.result() != second.result()
    assert third.result()
    eventually(lambda: stats().total_in_flight == 0)


def test_a_queue_that_has_died_is_found_again(run: Run) -> None:
    handle = run(app(num_replicas=2))
    assert handle.remote().result()
    skate.kill(the_queue(), no_restart=False)
    assert handle.remote().result()
    eventually(lambda: stats().num_replicas == 2)
    before = stats().total_acquires
    assert handle.remote().result()
    eventually(lambda: stats().total_acquires > before)


def test_without_a_queue_two_replicas_are_compared(run: Run) -> None:
    handle = run(app(deployment_actors=[]))
    assert handle.remote().result()


@pytest.mark.parametrize("retries", [0, 2])
def test_a_queue_that_cannot_be_reached_is_asked_again_so_often(
    monkeypatch: pytest.MonkeyPatch, retries: int
) -> None:
    router = CapacityQueueRouter(deployment_id=ID)
    router.initialize_state("places", max_fault_retries=retries)
    asked: list[bool] = []

    async def acquire() -> None:
        asked.append(True)
        raise ValueError("it is not there")

    monkeypatch.setattr(router, "_acquire", acquire)
    request = PendingRequest([], {}, RequestMetadata("id", "internal id"))

    async def choose() -> list[list[Any]]:
        return await router.choose_replicas([], request)

    answers = [asyncio.run(choose()) for _ in range(retries + 2)]
    assert answers == [[]] * retries + [[[]], [[]]]  # some replicas, in the end, of none here
    assert len(asked) == 1 + retries


def test_how_often_is_a_number() -> None:
    with pytest.raises(ValueError, match=r"max_fault_retries takes .* at least 0; got -1"):
        CapacityQueueRouter(deployment_id=ID).initialize_state("places", max_fault_retries=-1)


def test_the_queue_of_the_newest_version_is_asked(run: Run) -> None:
    key = deployment_actors.ActorKey(ID, "older", "places")
    shared: Any = CapacityQueue.options(name=str(key), namespace=NAMESPACE, lifetime="detached")
    older = shared.remote(PATIENCE, _enable_long_poll=False)
    skate.get(older.register_replica.remote("gone", 1))
    handle = run(app())
    assert handle.remote().result()
    assert skate.get(older.get_stats.remote()).total_acquires == 0
    (own,) = {*deployment_actors.find_all()} - {key}
    assert find_queue(ID, "older", "places") == key
    assert find_queue(ID, "yet to come", "places") == own  # it was started last
    skate.kill(older)


def test_a_place_is_given_back_however_many_wait(local_serving: str) -> None:
    places = CapacityQueue.remote(PATIENCE, _enable_long_poll=False)
    skate.get(places.register_replica.remote("r", 1))
    assert skate.get(places.acquire.remote()) == "r"
    waiting = [places.acquire.remote() for _ in range(1100)]
    places.release.remote("r")
    assert skate.get(waiting[0], timeout=PATIENCE / 2) == "r"
