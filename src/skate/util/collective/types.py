"""The words of the collective API."""

from __future__ import annotations

from enum import Enum


class CollectiveBackend:
    """Names of communication libraries. `Backend("gloo")` gives the name in its proper form."""

    GLOO = "GLOO"
    NCCL = "NCCL"

    def __new__(cls, name: str) -> str:  # type: ignore[misc]
        upper = str(name).upper()
        if upper in (cls.GLOO, "TORCH_GLOO"):
            return cls.GLOO
        if upper == cls.NCCL:
            return cls.NCCL
        raise ValueError(f'backend must be "gloo" or "nccl"; got {name!r}')


Backend = CollectiveBackend  # its public name


class ReduceOp(Enum):
    """How values of several processes become one."""

    SUM = 0
    PRODUCT = 1
    MIN = 2
    MAX = 3
