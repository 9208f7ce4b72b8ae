"""What is worth a line on standard error while a search runs, and what has come of it all."""

from __future__ import annotations

import itertools
import time
from typing import TYPE_CHECKING

from skate._core import notices
from skate._run.progress_lines import first_line, seconds_in_words, short_number
from skate._run.types import ResultRow
from skate._run.values import lookup, plain
from skate.tune.progress_reporter import best_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from skate.tune.experiment.trial import Trial

_MOST_FAILURES = 10  # that get a line of their own
_MOST_ERRORS = 10  # that differ, at the end


class ExperimentNotes:
    """Notes what goes wrong with trials: one line each, and all together at the end.

    Args:
        name: The experiment's.
        metric: What is optimised.
        mode: Whether larger values are better, "max", or smaller ones, "min".
        silent: Whether nothing is to be said at all.
    """

    def __init__(self, name: str, metric: str | None, mode: str | None, silent: bool) -> None:
        self._name = name
        self._metric = metric
        self._mode = mode
        self._silent = silent
        self._began = time.monotonic()
        self._failures = 0
        self._warned_of_nan = self._warned_of_silence = False

    def taken_up(self, trials: Sequence[Trial]) -> None:
        """Say what is known of a search that goes on, and what is done once more."""
        if self._silent:
            return
        over = sum(trial.is_finished() for trial in trials)
        kept = sum(trial.checkpoint is not None for trial in trials if not trial.is_finished())
        anew = len(trials) - over - kept
        parts = [(over, "over"), (kept, "to go on from a checkpoint"), (anew, "to begin")]
        states = ", ".join(f"{number} {state}" for number, state in parts if number)
        notices.say(f"{self._name} is taken up: {_number(trials)} of before ({states or 'none'})")

    def failed(self, trial: Trial, error: BaseException) -> None:
        """Note that a trial has failed, and was counted as such."""
        self._failures += 1
        if self._silent or self._failures > _MOST_FAILURES:
            return
        again = "; it is tried again" if trial.should_recover() else ""
        more = "; further failures are told at the end" * (self._failures == _MOST_FAILURES)
        notices.warn(
            f"trial {trial} failed: {first_line(error)} ({trial.error_file}){again}{more}"
        )

    def reported(self, trial: Trial, result: ResultRow) -> None:
        """Look at a result: a value that is no number decides otherwise than one thinks."""
        if self._metric is None or self._warned_of_nan:
            return
        value = plain(lookup(result, self._metric))
        if isinstance(value, float) and value != value:
            self._warned_of_nan = True
            if not self._silent:
                notices.warn(
                    f"trial {trial} reported {self._metric}=nan, by which trials are compared: it "
                    "counts as worse than any number, and get_best_result() passes over it"
                )

    def ended(self, trial: Trial) -> None:
        """Look at a trial that has ended by itself."""
        if trial.num_results or self._warned_of_silence or trial.status != "TERMINATED":
            return
        self._warned_of_silence = True
        if not self._silent:
            notices.warn(
                f"trial {trial} has ended without a result: call tune.report({{...}}) in it, or "
                "return a dict of metrics"
            )

    def finish(self, trials: Sequence[Trial], path: str) -> None:
        """Say what has come of it all, in two lines, and which trials have failed."""
        if self._silent:
            return
        failed = [trial for trial in trials if trial.status == "ERROR"]
        if failed:
            notices.warn(f"{self._name}: {_told(failed)}")
        took = seconds_in_words(time.monotonic() - self._began)
        notices.say(f"{self._name}: {counted(trials)} in {took}{self._best(trials)}")
        notices.say(f"{self._name}: results in {path}")

    def _best(self, trials: Sequence[Trial]) -> str:
        if self._metric is None or self._mode not in ("min", "max"):
            return ""
        best = best_of(trials, self._metric, self._mode)
        if best is None:
            return ""
        value = short_number(plain(lookup(best.last_result, self._metric)))
        parameters = ", ".join(
            f"{name}={short_number(plain(value))}" for name, value in best.evaluated_params.items()
        )
        return (
            f"; best {self._metric} {value} ({best.trial_id}{': ' * bool(parameters)}{parameters})"
        )


def counted(trials: Sequence[Trial]) -> str:
    """Return how many trials there are, and how they have ended."""
    ended = sum(trial.status == "TERMINATED" for trial in trials)
    failed = sum(trial.status == "ERROR" for trial in trials)
    others = len(trials) - ended - failed
    parts = [(ended, "ended"), (failed, "failed"), (others, "unfinished")]
    states = ", ".join(f"{number} {state}" for number, state in parts if number)
    return f"{_number(trials)} ({states or 'none began'})"


def _told(failed: Sequence[Trial]) -> str:
    """Return the errors of trials, equal ones once, each with where its traceback is."""
    errors: dict[str, list[Trial]] = {}
    for trial in failed:
        errors.setdefault(first_line(trial.error) if trial.error else "", []).append(trial)
    lines = [f"{_number(failed)} failed"]
    for error, trials in itertools.islice(errors.items(), _MOST_ERRORS):
        which = str(trials[0]) if len(trials) == 1 else f"{len(trials)} trials, as {trials[0]}"
        lines += [f"  {which}: {error}", f"    {trials[0].error_file}"]
    if len(errors) > _MOST_ERRORS:
        lines.append(f"  ... and {len(errors) - _MOST_ERRORS} more errors")
    return "\n".join(lines)


def _number(trials: Sequence[Trial]) -> str:
    return f"{len(trials)} trial{'s' * (len(trials) != 1)}"
