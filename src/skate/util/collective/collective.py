"""Collective communication between tasks and actors: a group by name, and what it can do."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import skate
from skate._core.optional_imports import is_installed, try_import
from skate.util.collective._meeting import declare_meeting, find_meeting
from skate.util.collective.backend_registry import RegisteredGroup, registered_backend
from skate.util.collective.types import CollectiveBackend, ReduceOp

if TYPE_CHECKING:
    from skate.util.collective._gloo import GlooGroup

    Group = GlooGroup | RegisteredGroup

_groups: dict[str, Group] = {}
_lock = threading.RLock()


# -- groups -------------------------------------------------------------------------------------


def init_collective_group(
    world_size: int,
    rank: int,
    backend: str = CollectiveBackend.GLOO,
    group_name: str = "default",
    gloo_timeout: int = 30000,
) -> None:
    """Join a group of processes; wait until all have joined.

    Args:
        world_size: How many processes there are.
        rank: The number of this one, from 0.
        backend: "gloo", or one of the program's own (`register_collective_backend`).
        group_name: The group; a process may be in several.
        gloo_timeout: Milliseconds that this, and every later operation, may take.

    Raises:
        ValueError: If `rank` is out of range, or `group_name` empty.
        RuntimeError: If this process is in the group already.
    """
    _check(backend)
    if not group_name:
        raise ValueError("group_name must not be empty")
    if world_size < 1 or not 0 <= rank < world_size:
        raise ValueError(f"rank must be from 0 to world_size - 1; got {rank} of {world_size}")
    with _lock:
        if group_name in _groups:
            raise RuntimeError(
                f"this process is in the collective group {group_name!r} already; leave it first "
                "with destroy_collective_group"
            )
    _join(group_name, world_size, rank, gloo_timeout / 1000, backend)


def create_collective_group(
    actors: list[Any],
    world_size: int,
    ranks: list[int],
    backend: str = CollectiveBackend.GLOO,
    group_name: str = "default",
    gloo_timeout: int = 30000,
) -> None:
    """Declare actors a group, from outside; each joins with its first operation in it.

    Args:
        actors: Their handles.
        world_size: How many processes there are.
        ranks: The number of each actor, from 0.
        backend: "gloo", or one of the program's own (`register_collective_backend`).
        group_name: The group; an actor may be in several.
        gloo_timeout: Milliseconds that joining, and every operation, may take.

    Raises:
        ValueError: If actors and ranks do not fit each other.
    """
    _check(backend)
    if len(actors) != len(ranks) or sorted(ranks) != list(range(world_size)):
        raise ValueError(
            f"each of the {world_size} processes needs an actor and a rank of its own; got "
            f"{len(actors)} actors and the ranks {ranks}"
        )
    members = {actor._actor_id.hex(): rank for actor, rank in zip(actors, ranks, strict=True)}
    declare_meeting(group_name, members, gloo_timeout / 1000, backend)


def destroy_collective_group(group_name: str = "default") -> None:
    """Leave a group, if this process is in it.

    Args:
        group_name: The group.
    """
    with _lock:
        group = _groups.pop(group_name, None)
    if group is None:
        return
    group.close()
    meeting = find_meeting(group_name) if group.declared else None
    if meeting is not None:  # would let this process in again
        skate.kill(meeting)


def is_group_initialized(group_name: str = "default") -> bool:
    """Return whether this process is in a group.

    Args:
        group_name: The group.
    """
    return group_name in _groups


def get_rank(group_name: str = "default") -> int:
    """Return this process's number in a group, -1 if it is not in it.

    Args:
        group_name: The group.
    """
    group = _groups.get(group_name)
    return -1 if group is None else group.rank


def get_collective_group_size(group_name: str = "default") -> int:
    """Return how many processes are in a group, -1 if this one is not in it.

    Args:
        group_name: The group.
    """
    group = _groups.get(group_name)
    return -1 if group is None else group.world_size


def is_backend_available(backend: str) -> bool:
    """Return whether groups can use a backend.

    Args:
        backend: Its name.

    Raises:
        ValueError: If there is no such name.
    """
    own = registered_backend(backend)
    if own is not None:
        return own.check_backend_availability()
    return CollectiveBackend(backend) == CollectiveBackend.GLOO and gloo_available()


def gloo_available() -> bool:
    """Return whether torch is installed, which brings gloo."""
    return is_installed("torch")


def nccl_available() -> bool:
    """Return False: groups use gloo."""
    return False


# -- operations ---------------------------------------------------------------------------------


def allreduce(tensor: object, group_name: str = "default", op: ReduceOp = ReduceOp.SUM) -> None:
    """Replace a tensor in every process by the combination of all of them.

    Args:
        tensor: The tensor of this process: of torch, or a NumPy array; all have the same shape.
        group_name: The group.
        op: How they are combined.

    Raises:
        ValueError: In every process, if their tensors differ in size or dtype.
    """
    _group(group_name).allreduce(tensor, op)


def reduce(
    tensor: object, dst_rank: int = 0, group_name: str = "default", op: ReduceOp = ReduceOp.SUM
) -> None:
    """Replace a tensor in one process by the combination of all of them.

    Args:
        tensor: The tensor of this process.
        dst_rank: The process that gets the result.
        group_name: The group.
        op: How they are combined.

    Raises:
        ValueError: In every process, if their tensors differ in size or dtype.
    """
    group = _group(group_name)
    group.reduce(tensor, _checked_rank(group, dst_rank), op)


def broadcast(tensor: object, src_rank: int = 0, group_name: str = "default") -> None:
    """Replace a tensor in every process by that of one of them.

    Args:
        tensor: The tensor of this process.
        src_rank: The process whose tensor it is.
        group_name: The group.

    Raises:
        ValueError: In every process, if their tensors differ in size or dtype.
    """
    group = _group(group_name)
    group.broadcast(tensor, _checked_rank(group, src_rank))


def allgather(tensor_list: list[Any], tensor: object, group_name: str = "default") -> None:
    """Fill a list with the tensors of all processes, in the order of their ranks.

    Args:
        tensor_list: Tensors to write to, one for each process.
        tensor: The tensor of this process.
        group_name: The group.

    Raises:
        ValueError: In every process, if their tensors differ in size or dtype.
    """
    group = _group(group_name)
    group.allgather(_checked_list(group, tensor_list), tensor)


def reducescatter(
    tensor: object,
    tensor_list: list[Any],
    group_name: str = "default",
    op: ReduceOp = ReduceOp.SUM,
) -> None:
    """Fill a tensor in process n with the combination of everyone's `tensor_list[n]`.

    Args:
        tensor: The tensor to write to.
        tensor_list: A tensor for each process.
        group_name: The group.
        op: How they are combined.

    Raises:
        ValueError: In every process, if their tensors differ in size or dtype.
    """
    group = _group(group_name)
    group.reducescatter(tensor, _checked_list(group, tensor_list), op)


def send(tensor: object, dst_rank: int, group_name: str = "default") -> None:
    """Send a tensor to another process, which has to receive it.

    Args:
        tensor: The tensor.
        dst_rank: The process that receives.
        group_name: The group.
    """
    group = _group(group_name)
    group.send(tensor, _checked_peer(group, dst_rank))


def recv(tensor: object, src_rank: int, group_name: str = "default") -> None:
    """Fill a tensor with what another process sends.

    Args:
        tensor: The tensor to write to.
        src_rank: The process that sends.
        group_name: The group.
    """
    group = _group(group_name)
    group.recv(tensor, _checked_peer(group, src_rank))


def barrier(group_name: str = "default") -> None:
    """Wait until every process of the group has come here.

    Args:
        group_name: The group.
    """
    _group(group_name).barrier()


# -- inside -------------------------------------------------------------------------------------


def _join(
    group_name: str,
    world_size: int,
    rank: int,
    timeout: float,
    backend: str,
    declared: bool = False,
) -> Group:
    own = registered_backend(backend)
    if own is not None:
        group: Group = RegisteredGroup(own(world_size, rank, group_name), group_name, declared)
    else:
        from skate.util.collective._gloo import GlooGroup

        group = GlooGroup(group_name, world_size, rank, timeout, declared)
    with _lock:
        _groups[group_name] = group
    return group


def _group(group_name: str) -> Group:
    group = _groups.get(group_name)
    return group if group is not None else _join_declared(group_name)


def _join_declared(group_name: str) -> Group:
    ranks: dict[str, int] = {}
    timeout, backend = 0.0, ""
    meeting = find_meeting(group_name)
    if meeting is not None:
        ranks, timeout, backend = skate.get(meeting.members.remote())
    actor_id = skate.get_runtime_context().get_actor_id()
    if actor_id is None or actor_id not in ranks:
        raise RuntimeError(
            f"this process is not in a collective group {group_name!r}: use "
            "init_collective_group here, or create_collective_group with this actor"
        )
    return _join(group_name, len(ranks), ranks[actor_id], timeout, backend, declared=True)


def _check(backend: str) -> None:
    own = registered_backend(backend)
    if own is not None:
        if not own.check_backend_availability():
            raise RuntimeError(f"the collective backend {backend!r} is not available here")
        return
    if CollectiveBackend(backend) != CollectiveBackend.GLOO:
        raise RuntimeError(f'collective groups use gloo: backend="gloo"; got {backend!r}')
    try_import("torch", extra="torch")


def _checked_rank(group: Group, rank: int) -> int:
    if not 0 <= rank < group.world_size:
        raise ValueError(
            f"the group {group.name!r} has ranks 0 to {group.world_size - 1}; got {rank}"
        )
    return rank


def _checked_peer(group: Group, rank: int) -> int:
    if _checked_rank(group, rank) == group.rank:
        raise RuntimeError(f"rank {rank} is this process itself; name another")
    return rank


def _checked_list(group: Group, tensors: object) -> list[Any]:
    if not isinstance(tensors, list) or len(tensors) != group.world_size:
        raise RuntimeError(
            f"tensor_list must be a list of {group.world_size} tensors, one for each process; "
            f"got {tensors!r}"
        )
    return tensors
