"""How much there is to do, told to the controller where it decides on the number of replicas."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any

from skate.serve._identity import new_tag

_LONGEST = 1.0  # seconds between reports, at most, while there is load


class Average:
    """The time-weighted average of a number that goes up and down."""

    def __init__(self) -> None:
        self._value = 0
        self._area = 0.0
        self._since = self._start = time.monotonic()

    def change(self, value: int) -> None:
        now = time.monotonic()
        self._area += self._value * (now - self._since)
        self._value, self._since = value, now

    def take(self) -> float:
        """The average since it was last taken."""
        self.change(self._value)
        elapsed = self._since - self._start
        average = self._area / elapsed if elapsed > 0 else float(self._value)
        self._area, self._start = 0.0, self._since
        return average


class ReplicaLoad:
    """Reports of a replica, from its event loop, while it has something to do."""

    def __init__(self, tell: Callable[[float], None], interval: float) -> None:
        self._tell = tell
        self._interval = min(interval, _LONGEST)
        self._average = Average()
        self._planned = False
        self._value = 0

    def change(self, value: int) -> None:
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


class QueueReporter:
    """Reports of the routers of this process, from a thread that lives while requests wait."""

    def __init__(self) -> None:
        self._name = new_tag()
        self._watched: dict[Any, tuple[Callable[[], int], Callable[[str, float], None]]] = {}
        self._interval = _LONGEST
        self._lock = threading.Lock()
        self._news = False
        self._thread: threading.Thread | None = None

    def watch(
        self,
        key: Any,
        interval: float,
        count: Callable[[], int],
        tell: Callable[[str, float], None],
    ) -> None:
        """Report `count()` by `tell(reporter, number)` while it is not 0."""
        with self._lock:
            self._watched[key] = (count, tell)
            self._interval = min(interval, self._interval)

    def something_waits(self) -> None:
        with self._lock:
            self._news = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="skate-serve-load", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        busy: set[Any] = set()
        while True:
            with self._lock:
                if not busy and not self._news:
                    self._thread = None
                    return
                self._news = False
                watched = dict(self._watched)
            busy = {key for key, each in watched.items() if self._report(key, each, key in busy)}
            time.sleep(self._interval)

    def _report(self, key: Any, watched: Any, was_busy: bool) -> bool:
        count, tell = watched
        waiting = count()
        if waiting or was_busy:
            try:
                tell(self._name, waiting)
            except Exception:  # the session has ended
                with self._lock:
                    self._watched.pop(key, None)
                return False
        return bool(waiting)
