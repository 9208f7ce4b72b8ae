"""Groups of actors that are made from outside, and tensors between actors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import skate
from skate.experimental import collective as groups
from skate.util import collective


@skate.remote(num_cpus=0, enable_tensor_transport=True)
class Holder:
    @skate.method(tensor_transport="gloo")
    def ones(self, n: int) -> torch.Tensor:
        return torch.ones(n)

    def total(self, tensor: torch.Tensor) -> float:
        return float(tensor.sum())

    def all_reduce(self, name: str) -> float:
        tensor = torch.ones(1)
        collective.allreduce(tensor, group_name=name)
        return float(tensor[0])

    def is_in(self, name: str) -> bool:
        return collective.is_group_initialized(name)


@pytest.fixture
def actors(one_session: None) -> Iterator[list[Any]]:
    yield [Holder.remote(), Holder.remote()]
    groups.destroy_all_collective_groups()


@pytest.mark.usefixtures("one_session")
class TestTensors:
    def test_a_tensor_goes_from_actor_to_actor_by_any_transport(self, actors: list[Any]) -> None:
        for transport in ("gloo", "NCCL", "nixl", "object_store", None):
            tensor = actors[0].ones.options(tensor_transport=transport).remote(100_000)
            assert skate.get(actors[1].total.remote(tensor), timeout=60) == 100_000
            assert skate.get(tensor, timeout=60).shape == (100_000,)
            stored = skate.put(torch.ones(3), _tensor_transport=transport)
            assert skate.get(actors[1].total.remote(stored), timeout=60) == 3

    def test_a_group_is_made_found_and_destroyed(self, actors: list[Any]) -> None:
        group = groups.create_collective_group(actors, backend="gloo")
        assert (group.backend, group.actors) == ("gloo", actors)
        assert [group.get_rank(actor) for actor in (*actors, Holder.remote())] == [0, 1, -1]
        assert groups.get_collective_groups([actors[1]], backend="GLOO") == [group]
        assert groups.get_collective_groups([Holder.remote()]) == []
        sums = [actor.all_reduce.remote(group.name) for actor in actors]
        assert skate.get(sums, timeout=60) == [2, 2]
        groups.destroy_collective_group(group)
        assert groups.get_collective_groups(actors) == []
        there = [actor.is_in.remote(group.name) for actor in actors]
        assert skate.get(there, timeout=60) == [False, False]

    def test_groups_that_cannot_be(self, actors: list[Any]) -> None:
        with pytest.raises(ValueError, match="each once"):
            groups.create_collective_group([actors[0], actors[0]], backend="gloo")
        with pytest.raises(TypeError, match="a list of actors"):
            groups.create_collective_group([1, 2], backend="gloo")
        with pytest.raises(ValueError, match="pigeon"):
            groups.create_collective_group(actors, backend="pigeon")
        groups.create_collective_group(actors, backend="gloo", name="taken")
        with pytest.raises(ValueError, match="taken"):
            groups.create_collective_group(actors, backend="gloo", name="taken")
        with pytest.raises(ValueError, match="'none'"):
            groups.destroy_collective_group("none")

    def test_another_transport_is_refused(self) -> None:
        with pytest.raises(ValueError, match="tensor_transport takes one of object_store, gloo"):
            skate.method(tensor_transport="pigeon")
        with pytest.raises(ValueError, match="_tensor_transport takes one of"):
            skate.put(1, _tensor_transport="pigeon")


def test_what_was_returned_can_be_written_to() -> None:
    """Others have copies: there is nothing to wait for."""
    skate.experimental.wait_tensor_freed(torch.ones(3), timeout=0)
