"""Several models in one replica."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from skate import serve
from skate.serve._identity import DeploymentID
from skate.serve._routing.routed_replica import ReplicaEntry
from skate.serve._routing.router import Router
from skate.serve._routing.routing_table import RoutingTable
from tests.support import Tally, eventually

Run = Callable[..., Any]


class Loaded:
    def __init__(self, name: str, tally: Tally) -> None:
        self.name = name
        self.tally = tally
        tally.add(f"+{name}")

    def __del__(self) -> None:
        self.tally.add(f"-{self.name}")


@serve.deployment(max_ongoing_requests=20)
class Models:
    def __init__(self, tally: Tally) -> None:
        self.tally = tally

    @serve.multiplexed(max_num_models_per_replica=2)
    async def load(self, model_id: str) -> Loaded:
        return Loaded(model_id, self.tally)

    async def __call__(self) -> tuple[str, int]:
        model = await self.load(serve.get_multiplexed_model_id())
        return model.name, os.getpid()

    @serve.batch(max_batch_size=4, batch_wait_timeout_s=0.05)
    async def batched(self, items: list[int]) -> list[tuple[str, list[int]]]:
        model = await self.load(serve.get_multiplexed_model_id())
        return [(model.name, items)] * len(items)


def test_the_models_used_last_are_kept(run: Run, tally: Tally) -> None:
    handle = run(Models.bind(tally))
    for name in ("a", "b", "a", "c", "a"):
        assert handle.options(multiplexed_model_id=name).remote().result()[0] == name
    assert [word for word in tally.words() if word[0] == "+"] == ["+a", "+b", "+c"]
    assert "-b" in tally.words()
    assert "-a" not in tally.words()


def test_requests_go_where_the_model_is(run_locally: Run, tally: Tally) -> None:
    handle = run_locally(Models.options(num_replicas=3).bind(tally))
    model = handle.options(multiplexed_model_id="m")
    home = model.remote().result()
    router = model._router

    def is_known() -> bool:
        return router is not None and any("m" in replica.models for replica in router._replicas)

    eventually(is_known)
    assert {model.remote().result() for _ in range(20)} == {home}
    assert tally.words() == ["+m"]


def test_requests_at_once_load_a_model_once(run_locally: Run, tally: Tally) -> None:
    handle = run_locally(Models.options(num_replicas=3).bind(tally))
    model = handle.options(multiplexed_model_id="m")
    responses = [model.remote() for _ in range(20)]
    assert len({response.result() for response in responses}) == 1
    assert tally.words() == ["+m"]


def test_new_models_go_where_the_fewest_are() -> None:
    router = Router(DeploymentID("d", "app"))
    actor: Any = SimpleNamespace(handle_request=None, handle_stream=None)
    models = {"a": ("x", "y"), "b": ("z",), "c": ()}
    router.update(RoutingTable(tuple(ReplicaEntry(tag, actor, models[tag]) for tag in models)))

    def goes_to(model: str) -> list[str]:
        return [tag for tag in models if not router.prefers_another(tag, model)]

    assert [goes_to("new"), goes_to("x"), goes_to("z")] == [["c"], ["a"], ["b"]]


def test_batches_are_of_one_model(run: Run, tally: Tally) -> None:
    handle = run(Models.bind(tally))
    responses = {
        (name, number): handle.options(multiplexed_model_id=name).batched.remote(number)
        for number in range(2)
        for name in ("a", "b")
    }
    for (name, number), response in responses.items():
        model, items = response.result()
        assert model == name
        assert number in items


def test_models_are_unloaded_with_their_replica(run: Run, tally: Tally) -> None:
    run(Models.bind(tally)).options(multiplexed_model_id="a").remote().result()
    serve.delete("default")
    assert tally.words()[:2] == ["+a", "-a"]


def test_a_model_must_be_named(run: Run, tally: Tally) -> None:
    handle = run(Models.bind(tally))
    with pytest.raises(ValueError, match="multiplexed_model_id"):
        handle.remote().result()


def test_outside_of_a_replica() -> None:
    @serve.multiplexed
    async def load(model_id: str) -> str:
        return model_id

    assert serve.get_multiplexed_model_id() == ""
    with pytest.raises(RuntimeError, match="only be used within a deployment"):
        asyncio.run(load("a"))


def test_what_is_refused() -> None:
    with pytest.raises(TypeError, match="integer"):
        serve.multiplexed(max_num_models_per_replica="1")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="positive"):
        serve.multiplexed(max_num_models_per_replica=0)
    with pytest.raises(TypeError, match="async def"):
        serve.multiplexed(lambda model_id: model_id)

    async def no_model() -> None: ...

    with pytest.raises(TypeError, match="model_id"):
        serve.multiplexed(no_model)
