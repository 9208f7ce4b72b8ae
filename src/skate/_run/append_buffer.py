"""Additions to many files, collected and written together."""

from __future__ import annotations

import time

from skate._run.folders import append_whole

_MOST_PENDING_BYTES = 1 << 16


class AppendBuffer:
    """Adds to files. With `flush_every_s` above 0, what comes within that time is written
    together: many trials that report thousands of times a second would spend most of it opening
    files.

    Args:
        flush_every_s: Seconds that an addition may wait in memory; 0 writes each at once.
    """

    def __init__(self, flush_every_s: float = 0.0) -> None:
        self._flush_every_s = flush_every_s
        self._pending: dict[str, bytearray] = {}
        self._due = 0.0

    def add(self, place: str, data: bytes) -> None:
        """Add to a file, now or soon."""
        if not self._flush_every_s:
            append_whole(place, data)
            return
        if not self._pending:
            self._due = time.monotonic() + self._flush_every_s
        waiting = self._pending.setdefault(place, bytearray())
        waiting += data
        if len(waiting) > _MOST_PENDING_BYTES:
            self.flush_file(place)

    def flush_file(self, place: str | None) -> None:
        """Write what waits for one file."""
        if place in self._pending:
            append_whole(place, self._pending.pop(place))

    def flush_if_due(self) -> None:
        """Write all that waits, if the first of it has waited long enough."""
        if self._pending and time.monotonic() >= self._due:
            self.flush()

    def flush(self) -> None:
        """Write all that waits."""
        pending, self._pending = self._pending, {}
        for place, data in pending.items():
            append_whole(place, data)
