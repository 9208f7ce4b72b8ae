"""Backends of a program's own: classes that carry tensors between the members of a group."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from skate._core.argument_checks import text
from skate.util.collective.types import (
    AllGatherOptions,
    AllReduceOptions,
    BarrierOptions,
    BroadcastOptions,
    CollectiveBackend,
    RecvOptions,
    ReduceOp,
    ReduceOptions,
    ReduceScatterOptions,
    SendOptions,
)

__all__ = ["BaseGroup", "RegisteredGroup", "register_collective_backend", "registered_backend"]

_backends: dict[str, type[BaseGroup]] = {}


class BaseGroup(ABC):
    """What a backend has to define: this process's membership in a group.

    Tensors come in lists of one, as there is one for each device of a process.

    Args:
        world_size: How many processes there are.
        rank: The number of this one, from 0.
        group_name: The group.
    """

    def __init__(self, world_size: int, rank: int, group_name: str) -> None:
        self._world_size = world_size
        self._rank = rank
        self._group_name = group_name

    @property
    def rank(self) -> int:
        """Return the number of this process."""
        return self._rank

    @property
    def world_size(self) -> int:
        """Return how many processes there are."""
        return self._world_size

    @property
    def group_name(self) -> str:
        """Return the name of the group."""
        return self._group_name

    def destroy_group(self) -> None:  # noqa: B027
        """Let go of what the group holds. By default there is nothing."""

    @classmethod
    def backend(cls) -> str:
        """Return the name of the backend."""
        raise NotImplementedError

    @classmethod
    @abstractmethod
    def check_backend_availability(cls) -> bool:
        """Return whether it can be used here."""

    @abstractmethod
    def allreduce(self, tensor: Any, allreduce_options: AllReduceOptions | None = None) -> None:
        """Replace a tensor in every process by the combination of all."""

    @abstractmethod
    def barrier(self, barrier_options: BarrierOptions | None = None) -> None:
        """Wait until every process has come here."""

    @abstractmethod
    def reduce(self, tensor: Any, reduce_options: ReduceOptions | None = None) -> None:
        """Replace a tensor in one process by the combination of all."""

    @abstractmethod
    def allgather(
        self, tensor_list: Any, tensor: Any, allgather_options: AllGatherOptions | None = None
    ) -> None:
        """Fill a list with the tensors of all processes."""

    @abstractmethod
    def broadcast(self, tensor: Any, broadcast_options: BroadcastOptions | None = None) -> None:
        """Replace a tensor in every process by that of one."""

    @abstractmethod
    def reducescatter(
        self,
        tensor: Any,
        tensor_list: Any,
        reducescatter_options: ReduceScatterOptions | None = None,
    ) -> None:
        """Fill a tensor with the combination of everyone's part for this process."""

    @abstractmethod
    def send(self, tensor: Any, send_options: SendOptions) -> None:
        """Send a tensor to another process."""

    @abstractmethod
    def recv(self, tensor: Any, recv_options: RecvOptions) -> None:
        """Fill a tensor with what another process sends."""


def register_collective_backend(name: str, group_cls: type[BaseGroup]) -> None:
    """Let groups of this process use a backend. Every process of a group has to do so.

    Args:
        name: Its name, in whatever case; `Backend` gets an attribute for it.
        group_cls: The class that carries the tensors.

    Raises:
        TypeError: If it is no subclass of `BaseGroup`, or the name no text.
        ValueError: If the name is empty or taken.
    """
    upper = text("name", name, "the name of a backend").upper()
    given: object = group_cls
    if not (isinstance(given, type) and issubclass(given, BaseGroup)):
        raise TypeError(f"group_cls must be a subclass of BaseGroup; got {group_cls!r}")
    if hasattr(CollectiveBackend, upper):
        raise ValueError(f"the collective backend {upper} is already registered")
    _backends[upper] = group_cls
    setattr(CollectiveBackend, upper, upper)


def registered_backend(name: str) -> type[BaseGroup] | None:
    """Return the class of a backend of the program's own; None for gloo and nccl.

    Raises:
        ValueError: If there is no such backend.
    """
    return _backends.get(CollectiveBackend(name))


class RegisteredGroup:
    """A group over such a backend, as the operations of this package use it."""

    def __init__(self, group: BaseGroup, name: str, declared: bool) -> None:
        self._group = group
        self.name = name
        self.declared = declared  # from outside, by create_collective_group
        self.world_size: int = group.world_size
        self.rank: int = group.rank

    def allreduce(self, tensor: object, op: ReduceOp) -> None:
        self._group.allreduce([tensor], AllReduceOptions(reduceOp=op))

    def reduce(self, tensor: object, dst_rank: int, op: ReduceOp) -> None:
        self._group.reduce([tensor], ReduceOptions(root_rank=dst_rank, reduceOp=op))

    def broadcast(self, tensor: object, src_rank: int) -> None:
        self._group.broadcast([tensor], BroadcastOptions(root_rank=src_rank))

    def allgather(self, tensor_list: list[Any], tensor: object) -> None:
        self._group.allgather([tensor_list], [tensor], AllGatherOptions())

    def reducescatter(self, tensor: object, tensor_list: list[Any], op: ReduceOp) -> None:
        self._group.reducescatter([tensor], [tensor_list], ReduceScatterOptions(reduceOp=op))

    def send(self, tensor: object, dst_rank: int) -> None:
        self._group.send([tensor], SendOptions(dst_rank=dst_rank))

    def recv(self, tensor: object, src_rank: int) -> None:
        self._group.recv([tensor], RecvOptions(src_rank=src_rank))

    def barrier(self) -> None:
        self._group.barrier(BarrierOptions())

    def close(self) -> None:
        self._group.destroy_group()
