"""A line now and then about a search, where there is no terminal, or nothing to draw with."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING

from skate._core import notices
from skate._core.optional_imports import install_command, is_installed
from skate._core.standard_streams import is_terminal
from skate._run.progress_lines import ProgressLines, seconds_in_words, short_number
from skate._run.values import lookup, plain
from skate.tune.progress_reporter import ProgressReporter, best_of

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial


class LineReporter(ProgressReporter):
    """Used by itself where there is no live view.

    Args:
        name: The experiment's.
    """

    def __init__(self, name: str) -> None:
        self._lines = ProgressLines(name)
        self._start_time = time.time()
        self._total: int | None = None
        self._metric: str | None = None
        self._mode: str | None = None
        if is_terminal(sys.stdout) and not is_installed("rich"):
            notices.once(
                "rich",
                f"for a live view of trials: {install_command('tune')} (the package rich)",
            )

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: object,
    ) -> None:
        self._start_time = start_time or self._start_time
        self._total, self._metric, self._mode = total_samples, metric, mode

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        return not done and self._lines.due()  # at the end there is a summary

    def report(self, trials: list[Trial], done: bool, *sys_info: object) -> None:
        ended = sum(trial.is_finished() for trial in trials)
        running = sum(trial.status == "RUNNING" for trial in trials)
        failed = sum(trial.status == "ERROR" for trial in trials)
        total = max(self._total or 0, len(trials))
        passed = time.time() - self._start_time
        left = passed / ended * (total - ended) if ended else None
        parts = [f"{ended}/{total} trials ended", f"{running} running"]
        parts += [f"{failed} failed"] if failed else []
        parts.append(seconds_in_words(passed))
        parts += [f"about {seconds_in_words(left)} left"] if left is not None else []
        self._lines.say(f"{', '.join(parts)}{self._best(trials)}")

    def _best(self, trials: list[Trial]) -> str:
        if self._metric is None or self._mode not in ("min", "max"):
            return ""
        best = best_of(trials, self._metric, self._mode)
        if best is None:
            return ""
        value = plain(lookup(best.last_result, self._metric))
        return f"; best {self._metric} {short_number(value)} ({best.trial_id})"
