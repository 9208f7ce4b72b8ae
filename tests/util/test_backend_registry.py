"""Collective backends of a program's own."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import skate
from skate.util import collective
from skate.util.collective import Backend, ReduceOp, backend_registry
from skate.util.collective.backend_registry import BaseGroup


class Diary(BaseGroup):
    """Notes what it is asked for."""

    here = True

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        super().__init__(world_size, rank, group_name)
        self.notes: list[Any] = []

    @classmethod
    def check_backend_availability(cls) -> bool:
        return cls.here

    def allreduce(self, tensor: Any, allreduce_options: Any = None) -> None:
        tensor[0].append((self.rank, self.world_size, allreduce_options.reduceOp))

    def barrier(self, barrier_options: Any = None) -> None:
        self.notes.append("barrier")

    def reduce(self, tensor: Any, reduce_options: Any = None) -> None:
        tensor[0].append((reduce_options.root_rank, reduce_options.reduceOp))

    def allgather(self, tensor_list: Any, tensor: Any, allgather_options: Any = None) -> None:
        tensor_list[0][0] = tensor[0]

    def broadcast(self, tensor: Any, broadcast_options: Any = None) -> None:
        tensor[0].append(broadcast_options.root_rank)

    def reducescatter(
        self, tensor: Any, tensor_list: Any, reducescatter_options: Any = None
    ) -> None:
        tensor[0].append((tensor_list[0], reducescatter_options.reduceOp))

    def send(self, tensor: Any, send_options: Any) -> None:
        tensor[0].append(send_options.dst_rank)

    def recv(self, tensor: Any, recv_options: Any) -> None:
        tensor[0].append(recv_options.src_rank)

    def destroy_group(self) -> None:
        self.notes.append("destroyed")


@pytest.fixture(autouse=True)
def forgotten_afterwards() -> Iterator[None]:
    yield
    if backend_registry._backends.pop("DIARY", None):
        del Backend.DIARY  # type: ignore[attr-defined]


@pytest.mark.usefixtures("engine")
def test_operations_are_those_of_the_backend() -> None:
    collective.register_collective_backend("Diary", Diary)
    assert Backend("diary") == Backend.DIARY == "DIARY"  # type: ignore[attr-defined]
    assert collective.is_backend_available("diary")
    collective.init_collective_group(2, 1, backend="diary", group_name="own")
    assert (collective.get_rank("own"), collective.get_collective_group_size("own")) == (1, 2)

    tensor: list[Any] = []
    parts: list[Any] = [None, None]
    collective.allreduce(tensor, "own", ReduceOp.MAX)
    collective.reduce(tensor, 0, "own", ReduceOp.MIN)
    collective.broadcast(tensor, 1, "own")
    collective.send(tensor, 0, "own")
    collective.recv(tensor, 0, "own")
    collective.reducescatter(tensor, parts, "own")
    assert tensor == [
        (1, 2, ReduceOp.MAX), (0, ReduceOp.MIN), 1, 0, 0, (parts, ReduceOp.SUM)
    ]  # fmt: skip
    collective.allgather(parts, "mine", "own")
    assert parts == ["mine", None]
    group: Any = collective.collective._groups["own"]._group
    collective.barrier("own")
    collective.destroy_collective_group("own")
    assert group.notes == ["barrier", "destroyed"]
    assert not collective.is_group_initialized("own")


@skate.remote(num_cpus=0)
class Writer:
    def write(self) -> list[Any]:
        collective.register_collective_backend("diary", Diary)
        tensor: list[Any] = []
        collective.allreduce(tensor, "declared")
        return tensor


def test_a_group_declared_from_outside(one_session: None) -> None:
    collective.register_collective_backend("diary", Diary)
    writers = [Writer.remote() for _ in range(2)]
    collective.create_collective_group(writers, 2, [1, 0], "diary", "declared")
    written = skate.get([writer.write.remote() for writer in writers], timeout=60)
    assert written == [[(1, 2, ReduceOp.SUM)], [(0, 2, ReduceOp.SUM)]]


def test_backends_that_cannot_be(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(TypeError, match="subclass of BaseGroup"):
        collective.register_collective_backend("diary", dict)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="register_collective_backend"):
        collective.is_backend_available("diary")
    for taken in ("gloo", "NCCL"):
        with pytest.raises(ValueError, match="already registered"):
            collective.register_collective_backend(taken, Diary)
    collective.register_collective_backend("diary", Diary)
    with pytest.raises(ValueError, match="already registered"):
        collective.register_collective_backend("DIARY", Diary)
    monkeypatch.setattr(Diary, "here", False)
    assert not collective.is_backend_available("diary")
    with pytest.raises(RuntimeError, match="not available"):
        collective.init_collective_group(1, 0, backend="diary")
