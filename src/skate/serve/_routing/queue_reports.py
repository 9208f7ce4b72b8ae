"""How many requests wait in routers, told to the controller where the load decides on replicas."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Hashable
from contextlib import suppress
from typing import NamedTuple

import skate
from skate.serve._identity import new_tag
from skate.serve._reports import LONGEST_INTERVAL_SECONDS


class _WatchedQueue(NamedTuple):
    count_waiting: Callable[[], int]
    tell: Callable[[str, float], None]
    is_urgent: Callable[[], bool]


class QueueReporter:
    """Reports of the routers of this process, from a thread that lives while requests wait."""

    def __init__(self) -> None:
        self._name = new_tag()
        self._watched: dict[Hashable, _WatchedQueue] = {}
        self._interval = LONGEST_INTERVAL_SECONDS
        self._lock = threading.Lock()
        self._news = False
        self._thread: threading.Thread | None = None

    def watch(
        self,
        key: Hashable,
        interval: float,
        count: Callable[[], int],
        tell: Callable[[str, float], None],
        is_urgent: Callable[[], bool],
    ) -> None:
        """Report `count()` by `tell(reporter, number)`, each interval, while it is not 0.

        What waits for a moment only is no load that replicas have to be started for: it is
        counted after an interval, or at once if `is_urgent()`.
        """
        with self._lock:
            self._watched[key] = _WatchedQueue(count, tell, is_urgent)
            self._interval = min(interval, self._interval)

    def something_waits(self) -> None:
        """Begin to report, if that is not done yet."""
        with self._lock:
            self._news = True
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="skate-serve-load", daemon=True
                )
                self._thread.start()

    def _run(self) -> None:
        busy: set[Hashable] = set()
        while True:
            with self._lock:
                if not busy and not self._news:
                    self._thread = None
                    return
                self._news = False
                watched = dict(self._watched)
            busy = {key for key, each in watched.items() if self._report(key, each, key in busy)}
            time.sleep(self._interval)

    def _report(self, key: Hashable, watched: _WatchedQueue, was_busy: bool) -> bool:
        waiting = watched.count_waiting()
        if not was_busy and not (waiting and watched.is_urgent()):
            return bool(waiting)
        if skate.is_initialized():  # a call after the end of a session would begin another
            with suppress(Exception):  # it ends just now
                watched.tell(self._name, waiting)
                return bool(waiting)
        with self._lock:
            self._watched.pop(key, None)
        return False
