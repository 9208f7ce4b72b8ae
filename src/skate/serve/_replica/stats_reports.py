"""What a replica's code measures by itself, told to the controller again and again."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, NamedTuple

from skate.serve._replica.threads import UserCodeThreads
from skate.serve._reports import LONGEST_INTERVAL_SECONDS
from skate.serve._routing.routed_replica import packed

logger = logging.getLogger("skate.serve")

_SHORTEST_INTERVAL_SECONDS = 0.001  # it must not keep a processor busy


class StatsPlan(NamedTuple):
    """How often to measure, how long that may take, and whether numbers are expected; all else
    is packed."""

    interval_s: float
    timeout_s: float | None
    numbers: bool = False

    @classmethod
    def of_numbers(cls, interval_s: float) -> StatsPlan:
        """Plan what policies decide by."""
        return cls(min(interval_s, LONGEST_INTERVAL_SECONDS), None, True)


def dictionary(method: str, found: Any) -> dict[str, Any]:
    """Return what a method of the user's has returned, which is a dictionary or None."""
    if found is not None and not isinstance(found, dict):
        raise TypeError(f"{method} must return a dictionary; got {found!r}")
    return found or {}


class StatsReports:
    """Asks the user's code for its measurements, and passes them on.

    One at a time, in a thread of their own: a function that hangs cannot be stopped, and must not
    take the threads of requests, one after the other.
    """

    def __init__(
        self,
        method: str,
        measure: Callable[[UserCodeThreads], Coroutine[Any, Any, Any]],
        tell: Callable[[Any], object],
        plan: StatsPlan,
    ) -> None:
        self._method = method
        self._measure = measure
        self._tell = tell
        self._plan = plan
        self._threads = UserCodeThreads(1)
        self._measuring: asyncio.Task[Any] | None = None
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def _run(self) -> None:
        while True:
            try:
                self._tell(await self._stats())
            except Exception:
                logger.exception("%s failed, which returns values by their names", self._method)
            await asyncio.sleep(max(self._plan.interval_s, _SHORTEST_INTERVAL_SECONDS))

    async def _stats(self) -> dict[str, float] | bytes:
        stats = dictionary(self._method, await self._found())
        if self._plan.numbers:
            return {str(name): float(value) for name, value in stats.items()}
        return packed(stats)

    async def _found(self) -> Any:
        """Wait for a measurement: for the last one, if a function still runs.

        Raises:
            TimeoutError: If it takes too long; a coroutine is cancelled by that.
        """
        if self._measuring is None:
            loop = asyncio.get_running_loop()
            self._measuring = loop.create_task(self._measure(self._threads))
        measuring, timeout = self._measuring, self._plan.timeout_s
        await asyncio.wait([measuring], timeout=timeout)
        if measuring.done():
            self._measuring = None
        elif not self._threads.are_busy:
            measuring.cancel()
        if not measuring.done() or measuring.cancelled():
            raise TimeoutError(f"no answer within {timeout} s")
        return measuring.result()

    def end(self) -> None:
        """Ask no more."""
        self._task.cancel()
        if self._measuring is not None:
            self._measuring.cancel()
        self._threads.end()
