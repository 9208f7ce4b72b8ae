"""Collective communication between tasks and actors, over gloo or what a program brings."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.util.collective.backend_registry import register_collective_backend
    from skate.util.collective.collective import (
        allgather,
        allreduce,
        barrier,
        broadcast,
        create_collective_group,
        destroy_collective_group,
        get_collective_group_size,
        get_rank,
        gloo_available,
        init_collective_group,
        is_backend_available,
        is_group_initialized,
        nccl_available,
        recv,
        reduce,
        reducescatter,
        send,
    )
    from skate.util.collective.types import Backend, ReduceOp
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Backend",
    "ReduceOp",
    "allgather",
    "allreduce",
    "barrier",
    "broadcast",
    "create_collective_group",
    "destroy_collective_group",
    "get_collective_group_size",
    "get_rank",
    "gloo_available",
    "init_collective_group",
    "is_backend_available",
    "is_group_initialized",
    "nccl_available",
    "recv",
    "reduce",
    "reducescatter",
    "register_collective_backend",
    "send",
]
