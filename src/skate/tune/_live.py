"""The table of trials on a terminal, redrawn in its place: sorted, with the time left."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from skate._core.notebooks import NotebookView, in_notebook
from skate._core.optional_imports import is_installed
from skate._core.standard_streams import is_terminal
from skate.tune._overview import columns, fitted
from skate.tune.progress_reporter import TuneReporterBase, headline

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial


_MOST_ROWS = 20
_OTHER_LINES = 8  # of the drawing: the headline, the best, the frame of the table


class LiveReporter(TuneReporterBase):
    """Used by itself on a terminal and in a notebook, if rich is installed."""

    def __init__(self) -> None:
        super().__init__(max_report_frequency=0, sort_by_metric=True)
        self._live: Any = None
        self._drawn = 0.0

    @staticmethod
    def usable() -> bool:
        """Return whether somebody would see a live view, and `rich` is there to draw it."""
        import sys

        return (is_terminal(sys.stdout) or in_notebook()) and is_installed("rich")

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        return done or time.monotonic() - self._drawn > 0.25

    def report(self, trials: list[Trial], done: bool, *sys_info: Any) -> None:
        from rich.live import Live

        self._drawn = time.monotonic()
        if self._live is None:
            self._live = NotebookView() if in_notebook() else Live(auto_refresh=False)
            self._live.start()
        # what does not fit on the screen cannot be redrawn in its place; the last table stays
        room = self._live.console.height - _OTHER_LINES
        self._max_rows = _MOST_ROWS if done else max(min(room, _MOST_ROWS), 1)
        drawing = self._drawing(trials, cut=not done, width=self._live.console.width)
        self._live.update(drawing, refresh=True)
        if done:
            self._live.stop()
            self._live = None

    def _drawing(self, trials: list[Trial], cut: bool = True, width: int = 120) -> object:
        """Draw the table of trials with the columns that fit, and the lines below it, cut or in
        full."""
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table()
        found = columns(trials, self._metric)
        headers, rows = fitted(self._chosen(trials), found, width, frame=0)
        for header in headers:
            table.add_column(header, no_wrap=True)
        for row in rows:
            table.add_row(*row)
        head = f"{headline(trials, self._total_samples)}{self._time_left(trials)}"
        more = len(trials) - self._max_rows
        rest = f"... {more} more trials not shown" if more > 0 else ""
        lines = [
            Text(line, no_wrap=cut, overflow="ellipsis")
            for line in (head, self._best_line(trials, brief=cut))
            if line
        ]
        return Group(*lines, table, Text(rest))

    def _time_left(self, trials: list[Trial]) -> str:
        """Tell the time passed, and estimate what is left from how long the finished trials
        took."""
        total = self._total_samples or len(trials)
        done = sum(trial.is_finished() for trial in trials)
        passed = time.time() - self._start_time
        if not done or done >= total:
            return f", {passed:.0f} s"
        return f", {passed:.0f} s, about {passed / done * (total - done):.0f} s left"
