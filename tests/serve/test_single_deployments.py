"""Deployments that run one by one, as programs for Ray until 2.8 have them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import skate
from skate import serve
from skate.serve._application.single_deployments import get_deployment, list_deployments
from skate.serve._application.specs import build
from skate.serve.exceptions import SkateServeError
from tests.support import PATIENCE


@serve.deployment
class Counter:
    def __init__(self, start: int = 0) -> None:
        self.number = start

    def __call__(self) -> int:
        return self.add(1)

    def add(self, number: int) -> int:
        self.number += number
        return self.number


@serve.deployment
class Front:
    def __init__(self) -> None:
        self.counter = get_deployment("Counter").get_handle()

    async def __call__(self) -> Any:
        return await self.counter.add.remote(10)


Run = Callable[..., Any]


def test_each_is_an_application_of_its_name(run: Run) -> None:
    Counter.deploy(5)
    Front.deploy()
    handle = Counter.get_handle()
    assert skate.get(handle.remote(), timeout=PATIENCE) == 6
    assert skate.get(Front.get_handle().remote(), timeout=PATIENCE) == 16
    assert sorted(list_deployments()) == ["Counter", "Front"]
    Counter.options(version="2").deploy(start=100)
    assert handle.remote().result(PATIENCE) == 101
    Counter.delete()
    assert sorted(list_deployments()) == ["Front"]
    with pytest.raises(KeyError, match="no deployment 'Counter' runs; there are \\['Front'\\]"):
        get_deployment("Counter")
    with pytest.raises(AttributeError, match="run it again"):
        _ = get_deployment("Front").options


def test_where_they_answer_http(run: Run) -> None:
    def prefix(deployment: Any, given: str | None = "/") -> str | None:
        return build(deployment.bind(), "app", given).route_prefix

    there = Counter.options(route_prefix="/there")
    assert (Counter.route_prefix, there.route_prefix) == ("/Counter", "/there")
    assert (prefix(Counter), prefix(there), prefix(there, "/other")) == ("/", "/there", "/other")
    assert prefix(serve.deployment(route_prefix=None)(Counter.func_or_class)) is None
    with pytest.raises(ValueError, match="must start with a forward slash"):
        Counter.options(route_prefix="there")
    there.deploy()
    assert get_deployment("Counter").route_prefix == "/there"
    Counter.options(route_prefix=None).deploy()
    assert Counter.url is None


def test_get_takes_responses(run: Run) -> None:
    handle = run(Counter.bind(), route_prefix=None)
    mixed = [handle.add.remote(1), skate.put("x"), handle.add.remote(1)]
    assert sorted(map(str, skate.get(mixed, timeout=PATIENCE))) == ["1", "2", "x"]
    with pytest.raises(TypeError, match="item 1 is int"):
        skate.get([handle.remote(), 3])
    with pytest.raises(SkateServeError, match="nothing"):
        skate.get(handle.nothing.remote(), timeout=PATIENCE)


def test_one_of_an_application_is_found_as_well(run: Run) -> None:
    run(Counter.bind(), name="shop", route_prefix=None)
    assert Counter.get_handle().add.remote(1).result(PATIENCE) == 1
    Counter.delete()
    assert not list_deployments()


def test_options_can_be_set(run: Run) -> None:
    changed = Counter.options()
    changed.set_options(num_replicas=3)
    assert (changed.num_replicas, Counter.num_replicas) == (3, 1)
    with pytest.raises(ValueError, match="num_replicas"):
        changed.set_options(num_replicas=-4)


def test_what_is_told_of_a_deployment_that_does_not_run(run: Run) -> None:
    with pytest.raises(SkateServeError):
        skate.get(Counter.get_handle().remote(), timeout=PATIENCE)
