"""How many requests a replica answers, told to the controller where the load decides."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

_LONGEST_INTERVAL_SECONDS = 1.0  # between reports, while there is load


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
    """How many requests a replica has answered, and how long all of them have been here together.

    Whoever looks twice knows the rate, and the mean time: what was added to the seconds, by what
    was added to the answers.
    """

    def __init__(self) -> None:
        self.answered = 0
        self.seconds = 0.0
        self._since = time.monotonic()

    def passed(self, ongoing: int) -> None:
        """Count the time since the last change, in which there were so many requests."""
        now = time.monotonic()
        self.seconds += ongoing * (now - self._since)
        self._since = now


class ReplicaLoad:
    """Reports of a replica, from its event loop, while it has something to do."""

    def __init__(self, tell: Callable[[float], None], interval: float) -> None:
        self._tell = tell
        self._interval = min(interval, _LONGEST_INTERVAL_SECONDS)
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
