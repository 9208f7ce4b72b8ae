"""Of `ray.serve._private.test_utils`: what replicas and tests share, and what tests skip."""

from __future__ import annotations

import asyncio
import os
from typing import Any

import skate
from skate import serve


def skip_if_haproxy(reason: str) -> Any:
    """Skip nothing: there is no such proxy here."""
    import pytest

    return pytest.mark.skipif(False, reason=reason)


def wait_for_haproxy_routing_to_replica(timeout: int = 30) -> None:
    """Return at once, as replicas answer themselves."""


class _ProcessNumber:
    """Answers with the number of its process."""

    def __call__(self) -> int:
        return os.getpid()


GetPID = serve.deployment(_ProcessNumber, name="GetPID")
get_pid_entrypoint = GetPID.bind()


@skate.remote(num_cpus=0)
class Barrier:
    """Lets nobody go on before all have come."""

    def __init__(self, n: int) -> None:
        self._expected, self._come = n, 0
        self._all = asyncio.Event()

    async def wait(self) -> None:
        self._come += 1
        if self._come >= self._expected:
            self._all.set()
        await self._all.wait()

    def get_count(self) -> int:
        return self._come


@skate.remote(num_cpus=0)
class Accumulator:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self._items: list[Any] = []

    def add(self, item: object) -> None:
        self._items.append(item)

    def get(self) -> list[Any]:
        return list(self._items)

    def count(self) -> int:
        return len(self._items)


@skate.remote(num_cpus=0)
class Counter:
    """Counts to a number, which can be waited for."""

    def __init__(self, target: int) -> None:
        self._count, self._target = 0, target
        self._reached = asyncio.Event()

    def inc(self) -> None:
        self._count += 1
        if self._count >= self._target:
            self._reached.set()

    async def wait(self) -> None:
        await self._reached.wait()


@skate.remote(num_cpus=0)
class FailedReplicaStore:
    """Says which constructors are to fail: the first, or all others."""

    def __init__(self, fail_first: bool = False) -> None:
        self._fail_first = fail_first
        self._calls = self._failures = 0

    def should_fail(self) -> bool:
        self._calls += 1
        fails = (self._calls == 1) == self._fail_first
        self._failures += fails
        return fails

    def get_fail_count(self) -> int:
        return self._failures


@skate.remote(num_cpus=0)
class SharedCounter:
    """A number that processes share."""

    def __init__(self) -> None:
        self._count = 0

    def inc(self) -> int:
        self._count += 1
        return self._count

    def get(self) -> int:
        return self._count


@skate.remote(num_cpus=0)
class SharedFlag:
    """A switch that processes share."""

    def __init__(self) -> None:
        self._is_set = False

    def set(self) -> None:
        self._is_set = True

    def clear(self) -> None:
        self._is_set = False

    def is_set(self) -> bool:
        return self._is_set
