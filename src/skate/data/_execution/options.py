"""Limits of an execution."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import reduce
from math import inf
from operator import add, sub
from typing import Any

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_NAMES = {"cpu": "CPU", "gpu": "GPU", "object_store_memory": "", "memory": ""}


class ExecutionResources:
    """Amounts of resources.

    What is not given is 0; in `for_limits` and as `resource_limits` of `ExecutionOptions` it is
    unlimited.

    Args:
        cpu: CPUs.
        gpu: GPUs.
        object_store_memory: Bytes in the object store.
        memory: Bytes of memory.
    """

    def __init__(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> None:
        self._given = {
            "cpu": None if cpu is None else round(cpu, 5),
            "gpu": None if gpu is None else round(gpu, 5),
            "object_store_memory": object_store_memory,
            "memory": memory,
        }

    @property
    def cpu(self) -> float:
        """How many CPUs."""
        return self._given["cpu"] or 0.0

    @property
    def gpu(self) -> float:
        """How many GPUs."""
        return self._given["gpu"] or 0.0

    @property
    def object_store_memory(self) -> float:
        """Bytes of the object store."""
        return self._given["object_store_memory"] or 0

    @property
    def memory(self) -> float:
        """Bytes of memory."""
        return self._given["memory"] or 0

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ExecutionResources) and self._amounts() == other._amounts()

    def __hash__(self) -> int:
        return hash(tuple(self._amounts().values()))

    def __repr__(self) -> str:
        return (
            f"ExecutionResources(cpu={self.cpu}, gpu={self.gpu}, object_store_memory="
            f"{self.object_store_memory_str()}, memory={self.memory_str()})"
        )

    @classmethod
    def from_resource_dict(cls, resource_dict: Mapping[str, float]) -> ExecutionResources:
        """Return the amounts that a dictionary has.

        Args:
            resource_dict: As `{"CPU": 2, "GPU": 1, "memory": ...}`, or with num_cpus and num_gpus.
        """
        given = resource_dict.get
        return cls(
            given("CPU", given("num_cpus")),
            given("GPU", given("num_gpus")),
            given("object_store_memory"),
            given("memory"),
        )

    def to_resource_dict(self) -> dict[str, float]:
        """Return the amounts as a dictionary, as `{"CPU": 2, "GPU": 1, "memory": ...}`."""
        return {_NAMES[name] or name: amount for name, amount in self._amounts().items()}

    @classmethod
    def for_limits(
        cls,
        cpu: float | None = None,
        gpu: float | None = None,
        object_store_memory: float | None = None,
        memory: float | None = None,
    ) -> ExecutionResources:
        """Return limits; what is not given is not limited.

        Args:
            cpu: CPUs.
            gpu: GPUs.
            object_store_memory: Bytes in the object store.
            memory: Bytes of memory.
        """
        given = (cpu, gpu, object_store_memory, memory)
        return cls(*(inf if amount is None else amount for amount in given))

    @classmethod
    def zero(cls) -> ExecutionResources:
        """Return nothing of each."""
        return cls(0.0, 0.0, 0.0, 0.0)

    @classmethod
    def inf(cls) -> ExecutionResources:
        """Return resources without any limits."""
        return cls.for_limits()

    def _amounts(self) -> dict[str, float]:
        return {name: value or 0 for name, value in self._given.items()}

    def as_limits(self) -> ExecutionResources:
        """Return the same amounts as limits: those that were not given are not limited."""
        return self.for_limits(**self._given)

    @classmethod
    def combine(
        cls, resources: Iterable[ExecutionResources], fn: Callable[[float, float], float]
    ) -> ExecutionResources | None:
        """Fold amounts into one.

        Args:
            resources: The amounts.
            fn: Combines two numbers.

        Returns:
            The combination, amount by amount; None if there are none.
        """
        found = list(resources)
        if not found:
            return None
        parts = [each._amounts() for each in found]
        return cls(**{name: reduce(fn, (part[name] for part in parts)) for name in _NAMES})

    @classmethod
    def combine_sum(cls, resources: Iterable[ExecutionResources]) -> ExecutionResources:
        """Return the sum of amounts.

        Args:
            resources: The amounts.
        """
        return cls.combine(resources, add) or cls.zero()

    def _with(
        self, other: ExecutionResources, fn: Callable[[float, float], float]
    ) -> ExecutionResources:
        mine, theirs = self._amounts(), other._amounts()
        return type(self)(**{name: fn(mine[name], theirs[name]) for name in _NAMES})

    def add(self, other: ExecutionResources) -> ExecutionResources:
        """Return the sum.

        Args:
            other: What is added.
        """
        return self._with(other, add)

    def subtract(self, other: ExecutionResources) -> ExecutionResources:
        """Return the difference.

        Args:
            other: What is subtracted.
        """
        return self._with(other, sub)

    def max(self, other: ExecutionResources) -> ExecutionResources:
        """Return the greater of each amount.

        Args:
            other: The other amounts.
        """
        return self._with(other, max)

    def min(self, other: ExecutionResources) -> ExecutionResources:
        """Return the smaller of each amount.

        Args:
            other: The other amounts.
        """
        return self._with(other, min)

    def scale(self, f: float) -> ExecutionResources:
        """Return a multiple of each amount.

        Args:
            f: How many times.
        """
        return type(self)(**{name: amount * f for name, amount in self._amounts().items()})

    def floordiv(self, other: ExecutionResources) -> ExecutionResources:
        """Return how many times another one fits, amount by amount.

        Args:
            other: The other amounts.
        """
        divisors = other._amounts()
        return type(self)(
            **{n: a // divisors[n] if divisors[n] else inf for n, a in self._amounts().items()}
        )

    def copy(
        self,
        cpu: float | None = None,
        gpu: float | None = None,
        memory: float | None = None,
        object_store_memory: float | None = None,
    ) -> ExecutionResources:
        """Return the same, with other amounts where they are given.

        Args:
            cpu: CPUs.
            gpu: GPUs.
            memory: Bytes of memory.
            object_store_memory: Bytes in the object store.
        """
        given = {"cpu": cpu, "gpu": gpu, "memory": memory}
        given["object_store_memory"] = object_store_memory
        changed = {name: amount for name, amount in given.items() if amount is not None}
        return type(self)(**{**self._given, **changed})

    def is_zero(self) -> bool:
        """Return whether there is nothing."""
        return not any(self._amounts().values())

    def is_non_negative(self) -> bool:
        """Return whether no amount is below 0."""
        return all(amount >= 0 for amount in self._amounts().values())

    def satisfies_limit(
        self, limit: ExecutionResources, *, ignore_object_store_memory: bool = False
    ) -> bool:
        """Return whether no amount is above its limit.

        Args:
            limit: The limits.
            ignore_object_store_memory: Whether that of the object store does not count.
        """
        limits = limit._amounts()
        if ignore_object_store_memory:
            limits["object_store_memory"] = inf
        return all(amount <= limits[name] for name, amount in self._amounts().items())

    def memory_str(self) -> str:
        """Return the memory as text, as "1.0GiB"."""
        return _size(self.memory)

    def object_store_memory_str(self) -> str:
        """Return the memory in the object store as text, as "1.0GiB"."""
        return _size(self.object_store_memory)


def _size(amount: float) -> str:
    """Write a number of bytes as "1.5GiB"; "inf" if there is no limit."""
    if amount == inf:
        return "inf"
    step = max(0, int(amount).bit_length() - 1) // 10
    unit = min(step, len(_UNITS) - 1)
    return f"{int(amount) / 1024**unit:.1f}{_UNITS[unit]}"


@dataclass
class ExecutionOptions:
    """Say how datasets are executed.

    GPUs and memory are bounded by what functions ask for (`num_gpus`, `memory`) and by the size of
    their pools.

    Args:
        resource_limits: `cpu` bounds the tasks that run at a time, `object_store_memory` the bytes
            of finished blocks that wait for a consumer. None is no limit.
        exclude_resources: Without effect: data tasks leave the CPUs to others anyway.
        locality_with_output: Without effect: on one machine everything is near.
        preserve_order: Without effect: order is always kept.
        actor_locality_enabled: Without effect: on one machine everything is near.
        verbose_progress: Without effect: there is one line of progress.
        label_selector: Without effect: there is one machine.
    """

    resource_limits: ExecutionResources = field(default_factory=ExecutionResources.inf)
    exclude_resources: ExecutionResources = field(default_factory=ExecutionResources.zero)
    locality_with_output: bool | str | list[str] = False
    preserve_order: bool = True
    actor_locality_enabled: bool = False
    verbose_progress: bool = False
    label_selector: dict[str, str] | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "resource_limits":
            value = ExecutionResources.inf() if value is None else value.as_limits()
        elif name == "exclude_resources" and value is None:
            value = ExecutionResources.zero()
        super().__setattr__(name, value)

    def is_resource_limits_default(self) -> bool:
        """Return whether nothing is limited."""
        return self.resource_limits == ExecutionResources.inf()

    def validate(self) -> None:
        """Raise if limits make no sense."""
        for name, amount in self.resource_limits._amounts().items():
            if amount < 0:
                raise ValueError(f"resource_limits.{name} takes a positive number; got {amount}")
            if amount < inf and getattr(self.exclude_resources, name):
                raise ValueError(
                    f"resource_limits and exclude_resources cannot both be set for {name}: say "
                    "either how much there is, or how much of it is left to others"
                )
