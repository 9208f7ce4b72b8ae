"""Where values are."""

from __future__ import annotations

from typing import Any

import numpy
import pytest

import skate
from skate.experimental import get_local_object_locations, get_object_locations

pytestmark = pytest.mark.usefixtures("engine")


def test_a_value_is_on_this_machine() -> None:
    ref = skate.put(b"x" * 200_000)
    found = get_object_locations([ref])
    assert list(found) == [ref]
    assert found[ref]["node_ids"] == [skate.get_runtime_context().get_node_id()]
    assert found[ref]["did_spill"] is False
    assert get_local_object_locations([ref]) == found


@pytest.mark.engines("local")
def test_the_size_of_a_value() -> None:
    ref = skate.put(b"x" * 200_000)
    assert 200_000 <= get_object_locations([ref])[ref]["object_size"] < 210_000


@pytest.mark.engines("local")
def test_the_size_of_a_small_array() -> None:
    ref = skate.put(numpy.zeros(1000, dtype=numpy.uint8))
    assert 1000 < get_object_locations([ref])[ref]["object_size"] < 2000


@pytest.mark.engines("local")
def test_a_value_that_does_not_exist_yet_is_nowhere(flag: Any) -> None:
    gate = flag("gate")

    @skate.remote
    def later() -> int:
        gate.wait()
        return 1

    ref = later.remote()
    assert get_object_locations([ref])[ref]["node_ids"] == []
    gate.set()
    skate.get(ref)


def test_only_references_are_somewhere() -> None:
    assert get_object_locations([]) == {}
    with pytest.raises(TypeError, match="ObjectRefs"):
        get_object_locations([1])  # type: ignore[list-item]


def test_without_a_session_nothing_is_anywhere_and_none_begins() -> None:
    skate.shutdown()
    for look_up in (get_object_locations, get_local_object_locations):
        with pytest.raises(RuntimeError, match=r"call init\(\) first"):
            look_up([])
    assert not skate.is_initialized()
