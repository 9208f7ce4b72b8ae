"""What loggers write, copied to where a run's folder is."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from skate._run.storage import Storage

_AT_LEAST_SECONDS = 1.0
_SHARE = 10  # at most one part in this many of the time


class Uploads:
    """Copies the files of what runs, so that a kill costs seconds of them. They are copied as a
    whole, which takes longer the more there is: not with every result. On this machine loggers
    write to the folder itself."""

    def __init__(self, storage: Storage, running: Callable[[], Iterable[Storage]]) -> None:
        self._is_local = storage.is_local
        self._running = running
        self._due = 0.0

    def send_if_due(self) -> None:
        """Copy if it is time."""
        if time.monotonic() >= self._due:
            self.send()

    def send(self) -> None:
        """Copy what has changed."""
        if self._is_local:
            return
        start = time.monotonic()
        for storage in self._running():
            storage.sync()
        now = time.monotonic()
        self._due = now + max(_AT_LEAST_SECONDS, (now - start) * _SHARE)
