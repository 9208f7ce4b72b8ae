"""One line of progress on a terminal, or below the cell of a notebook."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from skate._core.notebooks import NotebookView, in_notebook
from skate._core.optional_imports import try_import
from skate._core.standard_streams import is_terminal
from skate.data._execution.stats import ExecutionStats, size_text
from skate.data._settings.context import DataContext

if TYPE_CHECKING:
    from rich.console import Console

EVERY = 0.1  # seconds between two updates
FIRST = 0.5  # what is over sooner shows nothing


class Progress:
    """Shown on stderr if that is a terminal, or in a notebook, and if
    `DataContext.enable_progress_bars` is on. A terminal has room for one: executions inside
    another show nothing."""

    _shown: Progress | None = None

    def __init__(self, stats: ExecutionStats, console: Console | None = None) -> None:
        self.stats = stats
        self.active = DataContext.get_current().enable_progress_bars and _terminal(console)
        self._console = console
        self._live: Any = None
        self._next = stats.started + FIRST

    def update(self) -> None:
        if not self.active:
            return
        now = time.perf_counter()
        if now >= self._next:
            self._next = now + EVERY
            self._show(now - self.stats.started)

    def _show(self, seconds: float) -> None:
        if self._live is None:
            if Progress._shown is not None:
                return
            Progress._shown = self
            self._live = self._started()
        self._live.update(self._line(seconds), refresh=True)

    def _started(self) -> Any:
        if self._console is None and in_notebook():
            return NotebookView()
        from rich.console import Console
        from rich.live import Live

        console = self._console or Console(stderr=True)
        live = Live(console=console, auto_refresh=False, transient=True)
        live.start()
        return live

    def _line(self, seconds: float) -> Any:
        from rich.progress_bar import ProgressBar
        from rich.table import Table
        from rich.text import Text

        grid = Table.grid(padding=(0, 1))
        grid.add_column(width=12)
        grid.add_column(no_wrap=True, overflow="ellipsis")
        share = self.stats.share_done
        bar = ProgressBar(
            total=None if share is None else 1.0,
            completed=share or 0.0,
            width=12,
            pulse=share is None,
            animation_time=seconds,
        )
        grid.add_row(bar, Text(self.text(seconds), overflow="ellipsis", no_wrap=True))
        return grid

    def text(self, seconds: float) -> str:
        """Describe how much is done and left, rows, rows per second, the memory of this process,
        and each operator: the busiest first, as a narrow terminal shows the beginning."""
        rate = self.stats.rows / seconds if seconds else 0.0
        memory = try_import("psutil", "data").Process().memory_info().rss
        work = sum(stage.busy_seconds for stage in self.stats.stages) or 1.0
        stages = ", ".join(
            f"{stage.name} {stage.busy_seconds / work:.0%} {stage.rows:,} rows "
            f"{size_text(stage.bytes)}"
            for stage in sorted(self.stats.stages, key=lambda stage: -stage.busy_seconds)
        )
        parts = (
            self.stats.remaining(seconds),
            f"{self.stats.rows:,} rows",
            f"{rate:,.0f} rows/s",
            size_text(memory),
            stages,
        )
        return "  ".join(filter(None, parts))

    def close(self) -> None:
        if self._live is not None:
            Progress._shown = None
            self._live.update(self._line(time.perf_counter() - self.stats.started), refresh=True)
            self._live.stop()  # a terminal forgets it, a notebook shows it for good
            self._live = None


def _terminal(console: Console | None) -> bool:
    import sys

    if console is not None:
        return console.is_terminal
    return is_terminal(sys.stderr) or in_notebook()
