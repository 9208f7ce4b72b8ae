"""How many requests a replica answers, told to the controller where the load decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from skate._core.latencies import LatencyCounts
from skate.serve._reports import LONGEST_INTERVAL_SECONDS


class TimeWeightedAverage:
    """The time-weighted average of a number that goes up and down."""

    def __init__(self) -> None:
        self._value = 0
        self._area = 0.0
        self._since = self._start = time.monotonic()

    def change(self, value: int) -> None:
        """Let the number be this from now on."""
        now = time.monotonic()
        self._area += self._value * (now - self._since)
        self._value, self._since = value, now

    def take(self) -> float:
        """Return the average since it was last taken."""
        self.change(self._value)
        elapsed = self._since - self._start
        average = self._area / elapsed if elapsed > 0 else float(self._value)
        self._area, self._start = 0.0, self._since
        return average


class Traffic:
    """How many requests a replica has answered, and how long they took.

    Whoever looks twice knows what has happened meanwhile: what was added.
    """

    def __init__(self) -> None:
        self.answered = 0
        self.seconds = 0.0  # of all of them together
        self.latencies = LatencyCounts()

    def count(self, seconds: float) -> None:
        """Count a request that took so long."""
        self.answered += 1
        self.seconds += seconds
        self.latencies.add(seconds)


class ReplicaLoad:
    """Reports of a replica, from its event loop, while it has something to do."""

    def __init__(self, tell: Callable[[float], None], interval: float) -> None:
        self._tell = tell
        self._interval = min(interval, LONGEST_INTERVAL_SECONDS)
        self._average = TimeWeightedAverage()
        self._planned = False
        self._value = 0

    def change(self, value: int) -> None:
        """Note how many requests there are, and report soon."""
        self._value = value
        self._average.change(value)
        if not self._planned:
            self._plan()

    def _plan(self) -> None:
        self._planned = True
        asyncio.get_running_loop().call_later(self._interval, self._report)

    def _report(self) -> None:
        self._planned = False
        average = self._average.take()
        self._tell(average)
        if average or self._value:
            self._plan()
