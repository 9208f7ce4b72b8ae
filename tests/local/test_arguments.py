"""Arguments and functions on their way out."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from skate._core import serialization
from skate._core.refs import ObjectRef
from skate._core.serialization import NO_ARGUMENTS, Serialized
from skate.engine.local.arguments import PackedArguments, dump_function, pack, unpack
from skate.engine.local.objects import INLINE, INLINE_LIMIT_BYTES, STORED, ObjectEntry

LARGE = np.zeros(12 << 20, np.uint8)


def ref(id: int) -> ObjectRef[Any]:
    home: Any = None
    entry = ObjectEntry(id)
    entry.kind, entry.data = STORED, (f"s0-{id}", 1)
    return ObjectRef(id, home, entry)


def no_put(value: Serialized) -> ObjectRef[Any]:
    raise AssertionError("nothing here is large")


def packed(*args: Any, **kwargs: Any) -> PackedArguments:
    return pack(args, kwargs, no_put)


def round_trip(arguments: PackedArguments) -> Any:
    return unpack(
        serialization.loads(arguments.data),
        [(slot, f"value {found._id}") for slot, found in arguments.dependencies],
    )


# -- arguments ---------------------------------------------------------------------------------


def test_nothing_costs_nothing() -> None:
    assert packed() is packed()
    assert packed().data is NO_ARGUMENTS


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((1, 2.5, "x", b"y", None, True, 1j), {}),
        (([1, {"k": (2,)}],), {}),
        ((), {"a": 1, "b": [2]}),
        ((1,), {"a": 2}),
        ((lambda: 3,), {}),
    ],
)
def test_small_arguments_travel_inside(args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    arguments = packed(*args, **kwargs)
    assert arguments.kind == INLINE
    got_args, got_kwargs = round_trip(arguments)
    if args and callable(args[0]):
        assert got_args[0]() == 3
    else:
        assert (tuple(got_args), got_kwargs) == (args, kwargs)


def test_references_at_the_top_are_filled_in() -> None:
    arguments = packed(ref(1), 5, ref(2), key=ref(3), other=6)
    assert [(slot, found._id) for slot, found in arguments.dependencies] == [
        (0, 1),
        (2, 2),
        ("key", 3),
    ]
    args, kwargs = round_trip(arguments)
    assert args == ["value 1", 5, "value 2"]
    assert kwargs == {"key": "value 3", "other": 6}


def test_nested_references_stay_and_are_listed() -> None:
    inner = [ref(1), ref(2)]
    arguments = packed(inner, {"k": inner[0]}, ref(3))
    assert arguments.nested == inner
    assert [found._id for _, found in arguments.dependencies] == [3]


def test_large_arguments_become_an_object_of_their_own() -> None:
    stored: list[Serialized] = []

    def put(value: Serialized) -> ObjectRef[Any]:
        stored.append(value)
        return ref(9)

    for large in (
        b"x" * (INLINE_LIMIT_BYTES + 1),
        np.zeros(INLINE_LIMIT_BYTES),
        "x" * (INLINE_LIMIT_BYTES + 1),
    ):
        arguments = pack((large, ref(1)), {}, put)
        assert arguments.kind == STORED
        assert arguments.data == (("s0-9", 1), 9)
        assert [found._id for found in arguments.nested] == [9]
        assert [slot for slot, _ in arguments.dependencies] == [1]
    assert len(stored) == 3


def test_later_changes_are_not_seen() -> None:
    array = np.zeros(10)
    arguments = packed(array)
    array[:] = 1
    args, _ = round_trip(arguments)
    assert args[0].sum() == 0


@pytest.mark.parametrize(
    ("args", "kwargs", "path"),
    [
        ((1, threading.Lock()), {}, "argument 1: _thread.lock"),
        (({"a": [threading.Lock()]},), {}, r"argument 0\['a'\]\[0\]: _thread.lock"),
        ((), {"config": {"lock": threading.Lock()}}, r"config\['lock'\]: _thread.lock"),
    ],
)
def test_the_culprit_is_named(args: tuple[Any, ...], kwargs: dict[str, Any], path: str) -> None:
    with pytest.raises(TypeError, match=path):
        packed(*args, **kwargs)


# -- functions ---------------------------------------------------------------------------------


def warning_of(function: Any, name: str = "f") -> str:
    with pytest.warns(UserWarning, match=f"^{name} is large") as caught:
        dump_function(function, name)
    assert len(caught) == 1
    assert caught[0].filename == __file__  # where the user is, not where skate is
    return str(caught[0].message)


def test_a_large_captured_variable_is_named_with_its_size() -> None:
    weights, small = np.zeros(20_000_000, np.uint8), np.zeros(10)

    def function() -> Any:
        return weights, small

    assert "uses weights (20 MB) from outside" in warning_of(function)


def test_several_are_named_the_largest_first() -> None:
    a, b = np.zeros(11_000_000, np.uint8), np.zeros(15_000_000, np.uint8)
    assert "uses b (15 MB), a (11 MB) from" in warning_of(lambda: (a, b))


def by_value(function: Callable[..., Any]) -> Callable[..., Any]:
    """As if it had been written in a script, whose functions are pickled by value."""
    function.__module__ = "__main__"
    function.__qualname__ = function.__name__
    return function


def test_global_variables_count_also_inside_of_comprehensions() -> None:
    @by_value
    def function() -> Any:
        return [LARGE for _ in range(2)]

    assert "LARGE (13 MB)" in warning_of(function)


def test_defaults_count() -> None:
    def function(*, table: Any = np.zeros(12_000_000, np.uint8)) -> Any:  # noqa: B008
        return table

    assert "table (12 MB)" in warning_of(function)


def test_methods_and_attributes_of_a_class_count() -> None:
    captured = np.zeros(11_000_000, np.uint8)

    class Model:
        weights = np.zeros(14_000_000, np.uint8)

        @staticmethod
        def method() -> Any:
            return captured

    text = warning_of(Model, "Model")
    assert "Model.weights (14 MB), captured (11 MB)" in text


def test_small_functions_are_not_warned_about() -> None:
    data = np.zeros(9_000_000, np.uint8)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        dump_function(lambda: data, "f")


def test_a_function_that_cannot_be_pickled_names_the_variable() -> None:
    lock = threading.Lock()
    with pytest.raises(TypeError, match=r"the function f, because of lock: _thread\.lock"):
        dump_function(lambda: lock, "f")


def test_what_cannot_be_sent_is_named_once() -> None:
    with pytest.raises(TypeError, match="Could not serialize the argument 1") as caught:
        packed(1, threading.Lock())
    assert caught.value.__context__ is caught.value.__cause__
    assert "Could not serialize" not in str(caught.value.__cause__)
