"""The words of the collective API."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from enum import Enum


class CollectiveBackend:
    """Names of communication libraries. `Backend("gloo")` gives the name in its proper form.

    Backends of a program's own are attributes too, once they are registered.
    """

    GLOO = "GLOO"
    NCCL = "NCCL"

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        upper = str(name).upper()
        if upper == "TORCH_GLOO":
            return cls.GLOO
        if vars(cls).get(upper) == upper:
            return upper
        raise ValueError(
            f'backend must be "gloo", "nccl" or one that register_collective_backend was told of '
            f"in this process; got {name!r}"
        )


Backend = CollectiveBackend  # its public name


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3


# -- what the operations of a backend are given ---------------------------------------------------

unset_timeout_ms = timedelta(milliseconds=-1)


@dataclass
class BarrierOptions:
    """How long a barrier may take."""

    timeout_ms: timedelta = unset_timeout_ms


@dataclass
class AllGatherOptions(BarrierOptions):
    """How long it may take to gather."""


@dataclass
class AllReduceOptions(BarrierOptions):
    """How values of all processes become one."""

    reduceOp: ReduceOp = ReduceOp.SUM  # noqa: N815


@dataclass
class ReduceScatterOptions(AllReduceOptions):
    """How values of all processes become one for each."""


@dataclass
class BroadcastOptions(BarrierOptions):
    """Whose value everyone gets."""

    root_rank: int = 0
    root_tensor: int = 0


@dataclass
class ReduceOptions(BroadcastOptions):
    """How values of all processes become one, and who gets it."""

    reduceOp: ReduceOp = ReduceOp.SUM  # noqa: N815


@dataclass
class SendOptions(BarrierOptions):
    """To whom a value goes."""

    dst_rank: int = 0
    dst_gpu_index: int = 0
    n_elements: int = 0


@dataclass
class RecvOptions(BarrierOptions):
    """From whom a value comes."""

    src_rank: int = 0
    src_gpu_index: int = 0
    n_elements: int = 0
