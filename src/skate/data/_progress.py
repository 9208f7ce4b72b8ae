"""One line of progress on a terminal."""

from __future__ import annotations

import sys
import time

from skate.data._context import DataContext
from skate.data._stats import ExecutionStats, size_text

EVERY = 0.1  # seconds between two updates
FIRST = 0.5  # what is over sooner shows nothing


class Progress:
    """Written to stderr if that is a terminal and `enable_progress_bars` is on."""

    def __init__(self, stats: ExecutionStats) -> None:
        self.stats = stats
        self.active = DataContext.get_current().enable_progress_bars and sys.stderr.isatty()
        self._next = stats.started + FIRST
        self._shown = False

    def update(self) -> None:
        if not self.active:
            return
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + EVERY
            self._shown = True
            sys.stderr.write(f"\r\x1b[K{self.line(now - self.stats.started)}")
            sys.stderr.flush()

    def line(self, seconds: float) -> str:
        rate = self.stats.rows / seconds if seconds else 0.0
        stages = " | ".join(
            f"{stage.name} {stage.rows:,} rows {size_text(stage.bytes)}"
            for stage in self.stats.stages
        )
        return f"{self.stats.rows:,} rows, {rate:,.0f} rows/s | {stages}"

    def close(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()
