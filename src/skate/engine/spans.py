"""Spans of time that a program has named, for the timeline."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

Record = Callable[[str, float, int, Mapping[str, Any]], None]


class Span:
    """Measures a block, and records it at its end.

    Args:
        name: What the timeline calls it.
        extra: What else it says of it: plain values by name.
        record: Takes the name, the time of the beginning, the microseconds, and `extra`.
    """

    def __init__(self, name: str, extra: Mapping[str, object], record: Record) -> None:
        self._name = name
        self._extra = extra
        self._record = record

    def __enter__(self) -> None:
        self._start, self._counter = time.time(), time.perf_counter()

    def __exit__(self, *exc: object) -> None:
        micros = int((time.perf_counter() - self._counter) * 1e6)
        self._record(self._name, self._start, micros, self._extra)
