"""Routers of users: who is asked, what they are told, and what becomes of their answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from skate import serve
from skate.serve.config import RequestRouterConfig
from skate.serve.exceptions import BackPressureError
from skate.serve.request_router import (
    FIFOMixin,
    LocalityMixin,
    MultiplexMixin,
    RequestRouter,
    RunningReplica,
)
from tests.support import PATIENCE, Flag, eventually

Run = Callable[..., Any]
Ranks = list[list[RunningReplica]]


def in_order(replicas: list[RunningReplica]) -> list[RunningReplica]:
    return sorted(replicas, key=lambda replica: replica.replica_id.unique_id)


class Numbered(RequestRouter):
    """Sends to the replica of a number, in the order of their names; the others come next."""

    def initialize_state(self, number: int = 0) -> None:
        self.number = number

    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: Any = None
    ) -> Ranks:
        ordered = in_order(candidate_replicas)
        return [[ordered[self.number]], [each for each in ordered if each is not ordered[0]]]


def routed_by(kind: Any, **settings: Any) -> RequestRouterConfig:
    return RequestRouterConfig(request_router_class=kind, **settings)


def own_name() -> str:
    return serve.get_replica_context().replica_id.unique_id


@serve.deployment(num_replicas=3, request_router_config=routed_by(Numbered))
def name(request: object = None) -> str:
    return own_name()


def test_the_router_of_the_user_chooses(run: Run) -> None:
    handle = run(name.bind())
    first = {handle.remote().result() for _ in range(10)}
    kwargs = {"request_router_kwargs": {"number": 1}}
    handle = run(name.options(request_router_config=routed_by(Numbered, **kwargs)).bind())
    second = {handle.remote().result() for _ in range(10)}
    assert len(first) == len(second) == 1


@serve.deployment(num_replicas=2, max_ongoing_requests=1, max_queued_requests=1)
class Waits:
    def __init__(self, flag: Flag) -> None:
        self.flag = flag

    def __call__(self) -> str:
        self.flag.wait()
        return own_name()


def sent(handle: Any) -> Any:
    response = handle.remote()
    eventually(lambda: response._request.ref is not None)
    return response


def test_a_replica_without_room_is_passed_over(
    run_locally: Run, flag: Callable[[str], Flag]
) -> None:
    go = flag("go")
    handle = run_locally(Waits.options(request_router_config=routed_by(Numbered)).bind(go))
    responses = [sent(handle) for _ in range(2)]
    waiting = handle.remote()
    with pytest.raises(BackPressureError):
        handle.remote().result()
    go.set()
    assert len({response.result() for response in responses}) == 2
    assert waiting.result()


TIMES = (
    "request_routing_stats_period_s request_routing_stats_timeout_s initial_backoff_s "
    "backoff_multiplier max_backoff_s"
)


@pytest.mark.parametrize("name", TIMES.split())
@pytest.mark.parametrize("wrong", [-1, 0, "x", None])
def test_times_that_cannot_be_are_refused(name: str, wrong: Any) -> None:
    with pytest.raises(ValueError, match=rf"{name} takes a number above 0; got {wrong!r}"):
        routed_by(Numbered, **{name: wrong})


def test_arguments_of_a_router_have_names() -> None:
    with pytest.raises(ValueError, match=r"request_router_kwargs takes a dictionary.*; got \[1\]"):
        routed_by(Numbered, request_router_kwargs=[1])


class Asked(RequestRouter):
    count = 0

    async def choose_replicas(self, candidate_replicas: Any, pending_request: Any = None) -> Ranks:
        Asked.count += 1
        return []


def test_the_shortest_pause_leaves_time_for_others(run: Run) -> None:
    config = routed_by(Asked, initial_backoff_s=1e-9, max_backoff_s=1e-9)
    handle = run(name.options(request_router_config=config).bind())
    began = time.monotonic()
    response = handle.remote()
    Asked.count = 0
    eventually(lambda: Asked.count >= 20)
    assert Asked.count <= (time.monotonic() - began) / 0.001 + 2
    response.cancel()


class Nobody(RequestRouter):
    async def choose_replicas(self, candidate_replicas: Any, pending_request: Any = None) -> Ranks:
        return []


def test_a_request_that_waits_can_be_cancelled(run: Run) -> None:
    handle = run(name.options(request_router_config=routed_by(Nobody)).bind())
    response = handle.remote()
    response.cancel()
    with pytest.raises(serve.exceptions.RequestCancelledError):
        response.result()


class Broken(RequestRouter):
    async def choose_replicas(self, candidate_replicas: Any, pending_request: Any = None) -> Ranks:
        raise KeyError("lost")


class Unready(Numbered):
    def initialize_state(self, number: int = 0) -> None:
        raise KeyError("lost")


@pytest.mark.parametrize("kind", [Broken, Unready])
def test_errors_of_a_router_are_those_of_its_requests(run: Run, kind: type) -> None:
    handle = run(name.options(request_router_config=routed_by(kind)).bind())
    with pytest.raises(KeyError, match="lost"):
        handle.remote().result()


class Cancelled(RequestRouter):
    async def choose_replicas(self, candidate_replicas: Any, pending_request: Any = None) -> Ranks:
        raise asyncio.CancelledError


def test_a_router_that_is_cancelled_by_itself_leaves_no_request(run: Run) -> None:
    handle = run(name.options(request_router_config=routed_by(Cancelled)).bind())
    with pytest.raises(serve.exceptions.RequestCancelledError):
        handle.remote().result(timeout_s=PATIENCE)


def test_requests_that_have_failed_wait_no_more(run: Run) -> None:
    broken = name.options(max_queued_requests=1, request_router_config=routed_by(Broken))
    handle = run(broken.bind())
    for _ in range(3):
        with pytest.raises(KeyError, match="lost"):
            handle.remote().result()


class Sending(Numbered):
    def initialize_state(self, number: int = 0) -> None:
        super().initialize_state(number)
        serve.get_deployment_handle(self._deployment_id.name, self.app_name).remote()


def test_a_router_may_send_requests_while_it_is_made(run: Run) -> None:
    handle = run(name.options(request_router_config=routed_by(Sending)).bind())
    assert handle.remote().result(timeout_s=60)


class LeastUsed(FIFOMixin, MultiplexMixin, LocalityMixin, RequestRouter):
    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: Any = None
    ) -> Ranks:
        near, *_ = self.rank_replicas_via_locality(candidate_replicas)
        free = self.select_available_replicas(near)
        measured = [each for each in free if "used" in each.routing_stats]
        if len(measured) < 2:
            return []
        return [[min(measured, key=lambda each: each.routing_stats["used"])]]


@serve.deployment(num_replicas=2)
class Used:
    def __call__(self) -> int:
        return serve.get_replica_context().rank.rank

    def record_routing_stats(self) -> dict[str, int]:
        return {"used": self()}


def test_what_replicas_measure_reaches_routers(run: Run) -> None:
    config = routed_by(LeastUsed, request_routing_stats_period_s=0.05)
    handle = run(Used.options(request_router_config=config).bind())
    assert {handle.remote().result() for _ in range(5)} == {0}


@serve.deployment(num_replicas=2)
class Turning:
    """The second replica is used less than the first, after a while."""

    def __init__(self) -> None:
        self.asked = 0

    def __call__(self) -> int:
        return serve.get_replica_context().rank.rank

    def record_routing_stats(self) -> dict[str, Any]:
        self.asked += 1
        used = self() if self.asked < 3 else -self()
        return {"used": used, "by_hour": np.zeros(24)}  # an array has no single truth value


def test_what_replicas_measure_may_be_anything_and_change(run: Run) -> None:
    config = routed_by(LeastUsed, request_routing_stats_period_s=0.05)
    handle = run(Turning.options(request_router_config=config).bind())
    eventually(lambda: handle.remote().result() == 1)


class WithModel(MultiplexMixin, RequestRouter):
    async def choose_replicas(
        self, candidate_replicas: list[RunningReplica], pending_request: Any = None
    ) -> Ranks:
        model = pending_request.metadata.multiplexed_model_id
        having, fewest, rest = self.rank_replicas_via_multiplex(candidate_replicas, model)
        return [having, in_order(fewest)[:1], rest]


@serve.deployment(num_replicas=3, request_router_config=routed_by(WithModel))
class Models:
    @serve.multiplexed(max_num_models_per_replica=2)
    async def load(self, model: str) -> str:
        return model

    async def __call__(self) -> tuple[str, str]:
        return await self.load(serve.get_multiplexed_model_id()), own_name()

    def record_replica_metadata(self) -> dict[str, str]:
        return {"name": own_name()}


def test_requests_go_where_their_model_is(run: Run) -> None:
    handle = run(Models.bind())
    for model in ("a", "b"):
        answers = {handle.options(multiplexed_model_id=model).remote().result() for _ in range(5)}
        assert len(answers) == 1


def test_what_a_replica_says_of_itself_is_seen_by_who_chooses_it(run: Run) -> None:
    @serve.deployment
    class Front:
        def __init__(self, models: Any) -> None:
            self.models = models

        async def __call__(self) -> tuple[str, dict[str, str]]:
            async with self.models.choose_replica() as selection:
                return selection.replica_id, selection.replica_metadata

    chosen, metadata = run(Front.bind(Models.bind())).remote().result()
    assert metadata == {"name": chosen}
