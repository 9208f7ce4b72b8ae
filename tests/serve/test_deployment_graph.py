"""Graphs of calls between deployments."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from skate import serve
from skate.dag import InputNode
from skate.serve.deployment_graph import GraphHandle


@serve.deployment
class Adder:
    def __init__(self, increment: int) -> None:
        self.increment = increment
        self.calls = 0

    def add(self, number: int) -> int:
        self.calls += 1
        return number + self.increment

    def count(self) -> int:
        return self.calls

    def options(self, number: int, numbers: list[int]) -> list[int]:
        return [number, *numbers]


@serve.deployment
def total(numbers: list[int], *, factor: int = 1) -> int:
    return sum(numbers) * factor


@serve.deployment
class Front:
    def __init__(self, graph: GraphHandle, calls: GraphHandle) -> None:
        self.graph = graph
        self.calls = calls

    async def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return await (await self.graph.remote(*args, **kwargs))

    async def count(self) -> Any:
        return await (await self.calls.remote())


def graph() -> tuple[Any, Any]:
    """(n + 1) + (n + 1) * 2, where n + 1 is one call, and how often that was made."""
    with InputNode() as given:
        adder = Adder.bind(1)
        more = adder.add.bind(given[0])
        double: Any = total.bind([more, more], factor=given.factor)
        return total.bind([more, double]), adder.count.bind()


def test_a_graph_is_a_handle_to_all_of_its_calls(run: Callable[..., Any]) -> None:
    handle = run(Front.bind(*graph()), route_prefix=None)
    assert handle.remote(3, factor=1).result() == 12
    assert handle.count.remote().result() == 1  # which two others depend on


def test_results_of_calls_go_to_the_next(run: Callable[..., Any]) -> None:
    with InputNode() as given:
        chain = Adder.bind(1).add.bind(Adder.bind(10).add.bind(given))
    handle = run(Front.bind(chain, None), route_prefix=None)
    assert handle.remote(100).result() == 111
    assert set(serve.status().applications["default"].deployments) == {"Front", "Adder", "Adder_1"}


def test_a_method_may_be_called_as_one_of_handles_and_get_a_result_twice(
    run: Callable[..., Any],
) -> None:
    with InputNode() as given:
        adder = Adder.bind(1)
        more = adder.add.bind(given)
        chain = adder.options.bind(more, [more])
    handle = run(Front.bind(chain, None), route_prefix=None)
    assert handle.remote(1).result() == [2, 2]


def test_errors_come_from_where_they_are(run: Callable[..., Any]) -> None:
    handle = run(Front.bind(*graph()), route_prefix=None)
    with pytest.raises(TypeError, match="str"):
        handle.remote("three", factor=1).result()


def test_what_is_bound_cannot_be_called() -> None:
    app: Any = Adder.bind(1)
    with pytest.raises(AttributeError, match=r"\.bind\(\) cannot be used again"):
        app.bind()
    with pytest.raises(AttributeError, match=r"\.remote\(\) cannot be used on ClassMethodNodes"):
        app.add.remote(1)
    with pytest.raises(AttributeError, match=r"deployed via `serve.run\(app\)`"):
        app.add(1)
    with pytest.raises(AttributeError, match=r"\.bind\(\) cannot be used again"):
        app.add.bind(1).bind()
    with pytest.raises(AttributeError, match="no attribute 'subtract'"):
        _ = app.subtract
    with pytest.raises(AttributeError, match=r"\.remote\(\) cannot be used on ClassMethodNodes"):
        copy.copy(app.add).remote(1)


def test_a_call_is_no_application(serving: str) -> None:
    with pytest.raises(TypeError, match="DAGDriver"):
        serve.run(graph()[0])


def test_a_function_takes_arguments_in_graphs_only() -> None:
    with pytest.raises(TypeError, match="has no constructor"):
        total.bind([1])
