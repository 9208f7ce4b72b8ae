"""The table of trials, for terminals and notebooks."""

from __future__ import annotations

import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from skate._core.notebooks import in_notebook
from skate._core.signature import passing_on
from skate._core.standard_streams import say
from skate._run.progress_lines import short_number
from skate._run.reporting import AUTOMATIC
from skate._run.types import ResultRow
from skate._run.values import lookup, plain
from skate.tune._table import text_table
from skate.tune.result import (
    EPISODE_REWARD_MEAN,
    MEAN_ACCURACY,
    MEAN_LOSS,
    TIME_TOTAL_S,
    TIMESTEPS_TOTAL,
    TRAINING_ITERATION,
)
from skate.tune.utils.util import unflattened_lookup

if TYPE_CHECKING:
    from skate.tune.experiment.trial import Trial


class ProgressReporter:
    """Override `report`, and `should_report` to say when."""

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        """Prepare, once, before anything else.

        Args:
            start_time: When the search began, in seconds since 1970.
            total_samples: How many trials there will be; `None` if that is not known.
            metric: The metric to optimise.
            mode: Whether larger values are better, "max", or smaller ones, "min".
            kwargs: What later versions may add.
        """

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        """Return whether it is time to report.

        Args:
            trials: All trials so far.
            done: Whether the search is over.
        """
        return True

    def report(self, trials: list[Trial], done: bool, *sys_info: Any) -> None:
        """Show how the trials are.

        Args:
            trials: All trials so far.
            done: Whether the search is over.
            sys_info: Lines of the scheduler and the machine.
        """
        raise NotImplementedError


class TuneReporterBase(ProgressReporter):
    """Make tables of trials.

    Args:
        metric_columns: The metrics to show: names, or a dict from names to headers; by default
            what most programs report, and up to `infer_limit` that are found in the results.
        parameter_columns: The parameters to show, likewise; by default all that were searched.
        total_samples: How many trials there will be, if that is known.
        max_progress_rows: How many trials to show.
        max_error_rows: How many failed trials to show.
        max_column_length: How long a header may be.
        max_report_frequency: The least number of seconds between two tables.
        infer_limit: How many metrics to find.
        print_intermediate_tables: Whether to show others than the last.
        metric: The metric of which the best is shown; by default that of `TuneConfig`.
        mode: Whether larger values are better, "max", or smaller ones, "min".
        sort_by_metric: Whether the best trials come first.
    """

    DEFAULT_COLUMNS: Mapping[str, str] = {
        MEAN_ACCURACY: "acc",
        MEAN_LOSS: "loss",
        TRAINING_ITERATION: "iter",
        TIME_TOTAL_S: "total time (s)",
        TIMESTEPS_TOTAL: "ts",
        EPISODE_REWARD_MEAN: "reward",
    }
    VALID_SUMMARY_TYPES = frozenset((int, float, str, bool, type(None)))

    def __init__(
        self,
        *,
        metric_columns: list[str] | dict[str, str] | None = None,
        parameter_columns: list[str] | dict[str, str] | None = None,
        total_samples: int | None = None,
        max_progress_rows: int = 20,
        max_error_rows: int = 20,
        max_column_length: int = 20,
        max_report_frequency: int = 5,
        infer_limit: int = 3,
        print_intermediate_tables: bool | None = None,
        metric: str | None = None,
        mode: str | None = None,
        sort_by_metric: bool = False,
    ) -> None:
        self._metrics = dict(
            _named(metric_columns if metric_columns is not None else self.DEFAULT_COLUMNS)
        )
        self._infers = metric_columns is None
        self._parameters = dict(_named(parameter_columns or []))
        self._total_samples = total_samples
        self._max_rows = max_progress_rows
        self._max_error_rows = max_error_rows
        self._max_column_length = max_column_length
        self._every = max_report_frequency
        self._infer_limit = infer_limit
        self._intermediate = (
            True if print_intermediate_tables is None else (print_intermediate_tables)
        )
        self._metric = metric
        self._mode = mode
        self._sort_by_metric = sort_by_metric
        self._start_time = time.time()
        self._last = float("-inf")

    def setup(
        self,
        start_time: float | None = None,
        total_samples: int | None = None,
        metric: str | None = None,
        mode: str | None = None,
        **kwargs: Any,
    ) -> None:
        self.set_start_time(start_time)
        if total_samples:
            self.set_total_samples(total_samples)
        self.set_search_properties(metric, mode)

    def set_search_properties(self, metric: str | None, mode: str | None) -> bool:
        """Take metric and mode from the tuner, where none were given.

        Args:
            metric: The metric of `TuneConfig`.
            mode: Its mode.
        """
        self._metric = self._metric or metric
        self._mode = self._mode or mode
        return True

    def set_total_samples(self, total_samples: int) -> None:
        """Note how many trials there will be.

        Args:
            total_samples: The number.
        """
        self._total_samples = total_samples

    def set_start_time(self, timestamp: float | None = None) -> None:
        """Note when it began.

        Args:
            timestamp: Seconds since 1970; None is now.
        """
        self._start_time = time.time() if timestamp is None else timestamp

    def should_report(self, trials: list[Trial], done: bool = False) -> bool:
        if done:
            return True
        if not self._intermediate or time.monotonic() - self._last < self._every:
            return False
        self._last = time.monotonic()
        return True

    def add_metric_column(self, metric: str, representation: str | None = None) -> None:
        """Show one more metric.

        Args:
            metric: The metric.
            representation: The header of its column; None is its name.
        """
        _add(self._metrics, metric, representation, "metric")
        self._infers = False

    def add_parameter_column(self, parameter: str, representation: str | None = None) -> None:
        """Show one more parameter.

        Args:
            parameter: The parameter.
            representation: The header of its column; None is its name.
        """
        _add(self._parameters, parameter, representation, "parameter")

    # -- the parts ---------------------------------------------------------------------------

    def _progress_str(self, trials: list[Trial], done: bool, *sys_info: str) -> str:
        parts = [headline(trials, self._total_samples)]
        if trials:
            parts.append(self._table(trials))
        more = len(trials) - self._max_rows
        if more > 0:
            parts.append(f"... {more} more trials not shown")
        failed = [trial for trial in trials if trial.num_failures]
        if failed:
            parts.append(self._errors(failed))
        best = self._best_line(trials)
        return "\n".join([*parts, *([best] if best else []), *sys_info]) + "\n"

    def _table(self, trials: list[Trial]) -> str:
        names = list(self._columns(trials))
        headers = ["Trial name", "status", "loc", *(header for _, header, _ in names)]
        rows = [
            [str(t), t.status, t.location, *(get(t) for _, _, get in names)]
            for t in self._chosen(trials)
        ]
        return text_table(headers, rows)

    def _columns(self, trials: list[Trial]) -> list[tuple[str, str, Callable[[Trial], Any]]]:
        parameters = self._parameters or dict.fromkeys(
            name for trial in trials for name in trial.evaluated_params
        )
        found: list[tuple[str, str, Callable[[Trial], Any]]] = [
            (name, header or name, self._parameter(name)) for name, header in parameters.items()
        ]
        for name, header in self._shown_metrics(trials).items():
            found.append((name, header or name, self._result(name)))
        return found

    def _shown_metrics(self, trials: list[Trial]) -> dict[str, Any]:
        """Choose the metrics that somebody has reported, and a few that nobody asked for."""
        reported: ResultRow = {}
        for trial in trials:
            reported.update(trial.last_result)
        if not self._infers:
            return self._metrics
        shown: dict[str, Any] = {k: v for k, v in self._metrics.items() if k in reported}
        if self._metric and self._metric in reported:
            shown.setdefault(self._metric, None)
        for name in _numbers(reported):
            if len(shown) >= len(self._metrics) + self._infer_limit:
                break
            shown.setdefault(name, None)
        return shown

    def _parameter(self, name: str) -> Callable[[Trial], Any]:
        return lambda trial: self._shown(
            trial.evaluated_params[name]
            if name in trial.evaluated_params
            else unflattened_lookup(name, trial.config, default=None)
        )

    def _result(self, name: str) -> Callable[[Trial], Any]:
        return lambda trial: self._shown(lookup(trial.last_result, name))

    def _shown(self, value: Any) -> Any:
        value = plain(value)
        if isinstance(value, (int, float, type(None))):
            return value
        text = str(value)
        limit = self._max_column_length
        return text if len(text) <= limit else "..." + text[-(limit - 3) :]

    def _chosen(self, trials: list[Trial]) -> list[Trial]:
        """Return the rows that are shown.

        If there are too many, those that run come first, and the best of the others, or those that
        have ended.
        """
        if self._sort_by_metric and self._metric:
            sign = -1 if self._mode == "max" else 1
            trials = sorted(trials, key=lambda t: _score(t, self._metric, sign))
            by_interest = sorted(trials, key=lambda t: t.status != "RUNNING")
        else:
            rank = {name: i for i, name in enumerate(("RUNNING", "TERMINATED", "PAUSED"))}
            by_interest = sorted(trials, key=lambda t: rank.get(t.status, 9))
        if len(trials) <= self._max_rows:
            return trials
        chosen = set(by_interest[: self._max_rows])
        return [t for t in trials if t in chosen]

    def _errors(self, failed: list[Trial]) -> str:
        rows = [[str(t), t.num_failures, t.error_file] for t in failed[: self._max_error_rows]]
        table = text_table(["Trial name", "# failures", "error file"], rows)
        return f"Number of errored trials: {len(failed)}\n{table}"

    def _best_line(self, trials: list[Trial], brief: bool = False) -> str:
        """Name the best trial so far; with all digits, unless it is to be brief."""
        metric = self._metric or self._only_metric(trials)
        if not metric or self._mode not in ("min", "max"):
            return ""
        best = best_of(trials, metric, self._mode)
        if best is None:
            return ""
        value = lookup(best.last_result, metric)
        shown = self._parameters or best.evaluated_params or best.config
        parameters = {name: self._parameter(name)(best) for name in shown}
        if brief:
            chosen = ", ".join(f"{k}={short_number(plain(v))}" for k, v in parameters.items())
            number = short_number(plain(value))
            return f"Current best trial: {best.trial_id} with {metric}={number} and {chosen}"
        return (
            f"Current best trial: {best.trial_id} with {metric}={value} and "
            f"parameters={parameters}"
        )

    def _only_metric(self, trials: list[Trial]) -> str | None:
        """Return the metric that nobody has named and all mean: trials report a single one."""
        found = {name for trial in trials for name in _numbers(trial.last_result)}
        return found.pop() if len(found) == 1 else None


class CLIReporter(TuneReporterBase):
    """Print tables of trials.

    Args:
        **kwargs: As `TuneReporterBase` takes them: metric_columns, parameter_columns,
            total_samples, max_progress_rows, max_error_rows, max_column_length,
            max_report_frequency, infer_limit, print_intermediate_tables, metric, mode and
            sort_by_metric.
    """

    def report(self, trials: list[Trial], done: bool, *sys_info: Any) -> None:
        text = self._progress_str(trials, done, *(str(line) for line in sys_info))
        say(sys.stdout, text)


class JupyterNotebookReporter(TuneReporterBase):
    """Show tables of trials in a notebook.

    Args:
        overwrite: Whether a table takes the place of the one before.
        **kwargs: As `CLIReporter` takes them: `metric_columns`, `parameter_columns`,
            `total_samples`, `max_progress_rows`, `max_error_rows`, `max_column_length`,
            `max_report_frequency`, `infer_limit`, `print_intermediate_tables`, `metric`, `mode`,
            `sort_by_metric`.
    """

    @passing_on(TuneReporterBase.__init__)
    def __init__(self, overwrite: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._overwrite = overwrite

    def report(self, trials: list[Trial], done: bool, *sys_info: Any) -> None:
        self.display(self._progress_str(trials, done, *(str(line) for line in sys_info)))

    def display(self, string: str) -> None:
        """Show a text; outside of notebooks it is printed.

        Args:
            string: The text.
        """
        if self._overwrite and in_notebook():
            sys.modules["IPython"].display.clear_output(wait=True)
        say(sys.stdout, string)


def headline(trials: Sequence[Trial], total: int | None) -> str:
    """Say how many trials there are, by their states, and of how many while there are more."""
    counts = Counter(trial.status for trial in trials)
    states = ", ".join(f"{counts[name]} {name}" for name in sorted(counts))
    of = f"/{total}" if total and total > len(trials) else ""
    return f"Number of trials: {len(trials)}{of} ({states})"


def best_of(trials: Sequence[Trial], metric: str, mode: str) -> Trial | None:
    """Find the trial with the best last value; None if no trial has one."""
    sign = -1 if mode == "max" else 1
    scored = [trial for trial in trials if lookup(trial.last_result, metric) is not None]
    return min(scored, key=lambda trial: _score(trial, metric, sign), default=None)


def _numbers(result: ResultRow) -> list[str]:
    """Name the numbers that a program has reported itself."""
    return [
        name
        for name, value in result.items()
        if name not in AUTOMATIC and type(plain(value)) in (int, float)
    ]


def _score(trial: Trial, metric: str | None, sign: int) -> float:
    value = plain(lookup(trial.last_result, metric or ""))
    if not isinstance(value, (int, float)) or value != value:
        return float("inf")
    return sign * value


def _named(columns: Any) -> Mapping[str, Any]:
    return columns if isinstance(columns, Mapping) else dict.fromkeys(columns)


def _add(columns: dict[str, Any], name: str, header: str | None, kind: str) -> None:
    if name in columns:
        raise ValueError(f"the {kind} {name!r} is shown already")
    columns[name] = header
