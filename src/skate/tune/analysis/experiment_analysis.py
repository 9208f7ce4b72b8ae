"""All trials of an experiment, from memory or from its folder: the best, tables, checkpoints."""

from __future__ import annotations

import html
import io
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.pickles import allowing
from skate._run.reporting import AUTOMATIC
from skate._run.storage import Storage
from skate._run.values import flatten, lookup
from skate.tune.experiment.state_file import STATE_FILE, aim_of, trials_of
from skate.tune.result import (
    CONFIG_PREFIX,
    EXPR_PROGRESS_FILE,
    EXPR_RESULT_FILE,
    TRAINING_ITERATION,
)
from skate.tune.utils.util import flatten_dict

if TYPE_CHECKING:
    import pandas as pd

    from skate._run.checkpoint import Checkpoint
    from skate._run.types import Config, ResultRow
    from skate.tune.experiment.trial import Trial

SCOPES = ("all", "last", "avg", "last-5-avg", "last-10-avg")


class ExperimentAnalysis:
    """Look at the trials of an experiment, also of one that still runs.

    Args:
        experiment_checkpoint_path: The experiment's folder, or the folder of several.
        storage_filesystem: The Arrow file system that it is on, if not this machine's.
        trials: The trials; None reads them from the folder.
        default_metric: The metric where none is given.
        default_mode: The mode where none is given, "min" or "max".
        allow_pickle: Whether to read what others have pickled, which runs their code. Without it,
            there is of their configurations what JSON can express, and of their errors a
            description.

    Raises:
        ValueError: If there is no such mode, or no experiment.
    """

    def __init__(
        self,
        experiment_checkpoint_path: object,
        *,
        storage_filesystem: object = None,
        trials: list[Trial] | None = None,
        default_metric: str | None = None,
        default_mode: str | None = None,
        allow_pickle: bool = False,
    ) -> None:
        from skate.tune.result import DEFAULT_METRIC

        if default_mode not in (None, "min", "max"):
            raise ValueError(f"default_mode takes 'min' or 'max'; got {default_mode!r}")
        if default_metric is None and default_mode:
            default_metric = DEFAULT_METRIC
        self.default_metric = default_metric
        self.default_mode = default_mode
        self._storage = _storage_at(experiment_checkpoint_path, storage_filesystem)
        if trials is None:
            with allowing(allow_pickle):
                trials = _stored_trials(self._storage, allow_pickle)
        self.trials = trials
        self.interrupted = False
        self._dataframes: dict[str, Any] | None = None

    def __repr__(self) -> str:
        from skate.tune._overview import overview

        table = overview(self.trials, self.default_metric)
        return (
            f"ExperimentAnalysis<{len(self.trials)} trials in {self.experiment_path}\n{table}\n>"
        )

    @property
    def experiment_path(self) -> str:
        """The experiment's folder."""
        return self._storage.path

    @property
    def _fs(self) -> Any:
        return self._storage.filesystem

    def _repr_html_(self) -> str:
        from skate._core.notebooks import html_table

        title = f"<b>{len(self.trials)} trials</b> in {html.escape(self.experiment_path)}"
        return title + html_table([_row_of(trial) for trial in self.trials])

    # -- the best ----------------------------------------------------------------------------

    def get_best_trial(
        self,
        metric: str | None = None,
        mode: str | None = None,
        scope: str = "last",
        filter_nan_and_inf: bool = True,
    ) -> Trial | None:
        """Return the trial with the best value of a metric; None if none has one.

        Args:
            metric: The metric; None is the default one.
            mode: Whether the largest value is the best, "max", or the smallest, "min"; None is the
                default.
            scope: Which of a trial's values counts: "last", "all" (its best), "avg", "last-5-avg"
                or "last-10-avg".
            filter_nan_and_inf: Whether to pass over values that are not finite.

        Raises:
            ValueError: If there is no such scope or mode, or no metric is known.
        """
        if len(self.trials) == 1:
            return self.trials[0]
        metric, mode = self._metric(metric), self._mode(mode)
        if scope not in SCOPES:
            raise ValueError(f"scope takes one of {SCOPES}; got {scope!r}")
        scored = [
            (trial.metric_analysis[metric][mode if scope == "all" else scope], trial)
            for trial in self.trials
            if metric in trial.metric_analysis
        ]
        if filter_nan_and_inf:
            scored = [pair for pair in scored if math.isfinite(pair[0])]
        choose = max if mode == "max" else min
        return choose(scored, key=lambda pair: pair[0])[1] if scored else None

    def get_best_config(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> Config | None:
        """Return the configuration of the best trial; None if there is none.

        Args:
            metric: As in `get_best_trial`.
            mode: As in `get_best_trial`.
            scope: As in `get_best_trial`.
        """
        trial = self.get_best_trial(metric, mode, scope)
        return trial.config if trial else None

    def get_best_logdir(
        self, metric: str | None = None, mode: str | None = None, scope: str = "last"
    ) -> str | None:
        """Return the folder of the best trial; None if there is none.

        Args:
            metric: As in `get_best_trial`.
            mode: As in `get_best_trial`.
            scope: As in `get_best_trial`.
        """
        trial = self.get_best_trial(metric, mode, scope)
        return trial.path if trial else None

    def get_best_checkpoint(
        self, trial: Trial | str, metric: str | None = None, mode: str | None = None
    ) -> Checkpoint | None:
        """Return the checkpoint of a trial with the best value of a metric; None if there is none.

        Args:
            trial: The trial, or its folder.
            metric: As in `get_best_trial`.
            mode: As in `get_best_trial`.
        """
        mode = self._mode(mode)
        scored = [pair for pair in self._scored(trial, metric) if not math.isnan(pair[1])]
        choose = max if mode == "max" else min
        return choose(scored, key=lambda pair: pair[1])[0] if scored else None

    def get_trial_checkpoints_paths(
        self, trial: Trial | str, metric: str | None = None
    ) -> list[tuple[str, Any]]:
        """Return the folders of a trial's checkpoints, each with its value of a metric.

        Args:
            trial: The trial, or its folder.
            metric: The metric; None is the default one.
        """
        return [(checkpoint.path, value) for checkpoint, value in self._scored(trial, metric)]

    def _scored(self, trial: Trial | str, metric: str | None) -> list[tuple[Checkpoint, Any]]:
        metric = metric or self.default_metric or TRAINING_ITERATION
        if isinstance(trial, str):
            trial = self._trial_in(trial)
        return [
            (checkpoint, value)
            for checkpoint, metrics in trial.get_best_checkpoints()
            if (value := lookup(metrics, metric)) is not None
        ]

    def _trial_in(self, folder: str) -> Trial:
        for trial in self.trials:
            if folder.rstrip("/") in (trial.path, trial.trial_id):
                return trial
        raise ValueError(f"{folder!r} is not the folder of a trial of {self.experiment_path!r}")

    def get_last_checkpoint(
        self, trial: Trial | None = None, metric: str = TRAINING_ITERATION, mode: str = "max"
    ) -> Checkpoint | None:
        """Return the last checkpoint of a trial; None if there is none.

        Args:
            trial: The trial; None is the best one.
            metric: By which that is the best.
            mode: Whether the largest value is the best, "max", or the smallest, "min".
        """
        trial = trial or self.get_best_trial(metric, mode)
        return self.get_best_checkpoint(trial, TRAINING_ITERATION, "max") if trial else None

    @property
    def best_trial(self) -> Trial:
        """By the default metric and mode."""
        self._check_defaults("best_trial")
        found = self.get_best_trial()
        if found is None:
            raise ValueError(f"no trial has reported {self.default_metric!r}")
        return found

    @property
    def best_config(self) -> Config:
        """The configuration of the best trial."""
        self._check_defaults("best_config")
        return self.best_trial.config

    @property
    def best_checkpoint(self) -> Checkpoint | None:
        """The best checkpoint of the best trial."""
        self._check_defaults("best_checkpoint")
        return self.get_best_checkpoint(self.best_trial)

    @property
    def best_logdir(self) -> str:
        """The folder of the best trial."""
        self._check_defaults("best_logdir")
        return self.best_trial.path

    @property
    def best_result(self) -> ResultRow:
        """The last result of the best trial."""
        self._check_defaults("best_result")
        return self.best_trial.last_result

    @property
    def best_dataframe(self) -> pd.DataFrame:
        """All results of the best trial."""
        self._check_defaults("best_dataframe")
        return self.trial_dataframes[self.best_trial.trial_id]

    @property
    def best_result_df(self) -> pd.DataFrame:
        """The last result of the best trial as a table."""
        pandas = try_import("pandas", "data")
        return pandas.DataFrame.from_records([flatten_dict(self.best_result)], index="trial_id")

    # -- all ---------------------------------------------------------------------------------

    @property
    def results(self) -> dict[str, ResultRow]:
        """The last result of each trial, by its id."""
        return {trial.trial_id: trial.last_result for trial in self.trials}

    @property
    def results_df(self) -> pd.DataFrame:
        """The last result of each trial as a table."""
        pandas = try_import("pandas", "data")
        rows = [flatten_dict(trial.last_result) for trial in self.trials if trial.last_result]
        return pandas.DataFrame.from_records(rows, index="trial_id" if rows else None)

    @property
    def trial_dataframes(self) -> dict[str, pd.DataFrame]:
        """All results of each trial as a table, by its id."""
        return self._dataframes if self._dataframes is not None else self.fetch_trial_dataframes()

    def fetch_trial_dataframes(self) -> dict[str, pd.DataFrame]:
        """Read all results of all trials once more, as frames by the ids of trials."""
        frames = {trial.trial_id: self._frame(trial) for trial in self.trials}
        self._dataframes = _ByTrial(frames, self._trial_in)
        return self._dataframes

    def _frame(self, trial: Trial) -> pd.DataFrame:
        pandas = try_import("pandas", "data")
        history = _history(trial)
        if not history and trial.storage.exists(EXPR_PROGRESS_FILE):  # as without JSON's logger
            return pandas.read_csv(io.BytesIO(trial.storage.read(EXPR_PROGRESS_FILE)))
        return pandas.DataFrame([dict(flatten(row)) for row in history])

    def get_all_configs(self, prefix: bool = False) -> dict[str, Config]:
        """Return the configuration of each trial, by its id.

        Args:
            prefix: Whether they are flat, as "config/lr".
        """
        configs = {
            trial.trial_id: flatten_dict({CONFIG_PREFIX: trial.config}) if prefix else trial.config
            for trial in self.trials
        }
        return _ByTrial(configs, self._trial_in)

    def dataframe(self, metric: str | None = None, mode: str | None = None) -> pd.DataFrame:
        """Return a frame with a row per trial: a result of it, and its configuration.

        Args:
            metric: The metric whose best value says which result; None takes the last.
            mode: Whether the largest value is the best, "max", or the smallest, "min".

        Raises:
            ValueError: If there is no such mode, or a mode without a metric.
        """
        pandas = try_import("pandas", "data")
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode takes 'min' or 'max'; got {mode!r}")
        if mode and not metric:
            raise ValueError("with a `mode`, dataframe() needs a `metric`")
        rows = [row for trial in self.trials if (row := self._row(trial, metric, mode))]
        return pandas.DataFrame(rows)

    def _row(self, trial: Trial, metric: str | None, mode: str | None) -> ResultRow:
        result = trial.last_result
        if metric and mode:
            choose = max if mode == "max" else min
            scored = [row for row in _history(trial) if lookup(row, metric) is not None]
            result = choose(scored, key=lambda row: lookup(row, metric)) if scored else {}
        if not result:
            return {}
        flat = flatten_dict({k: v for k, v in result.items() if k != CONFIG_PREFIX})
        config = flatten_dict({CONFIG_PREFIX: trial.config})
        return {**flat, **config, "logdir": trial.trial_id}

    def stats(self) -> ResultRow:
        """Return how many trials there are, by status, and when they began and reported last."""
        from collections import Counter

        last = [trial.last_result for trial in self.trials if trial.last_result]
        times = [(row.get("timestamp"), row.get("time_total_s", 0)) for row in last]
        stats: ResultRow = dict(Counter(trial.status for trial in self.trials))
        numbers = [  # a program may report something else by these names
            (end, seconds)
            for end, seconds in times
            if isinstance(end, (int, float)) and isinstance(seconds, (int, float))
        ]
        if numbers:
            stats["start_time"] = min(end - seconds for end, seconds in numbers)
            stats["timestamp"] = max(end for end, _ in numbers)
        return stats

    # -- defaults ----------------------------------------------------------------------------

    def _metric(self, metric: str | None) -> str:
        metric = metric or self.default_metric
        if metric is None:
            raise ValueError("which metric? Give one here, or to tune.run() or TuneConfig")
        return metric

    def _mode(self, mode: str | None) -> str:
        mode = mode or self.default_mode
        if mode is None:
            raise ValueError("which mode? Give 'min' or 'max' here, or to tune.run()")
        if mode not in ("min", "max"):
            raise ValueError(f"mode takes 'min' or 'max'; got {mode!r}")
        return mode

    def _check_defaults(self, name: str) -> None:
        if not self.default_metric or not self.default_mode:
            raise ValueError(
                f"`{name}` needs the metric and mode of the search: give both to tune.run() or "
                f"TuneConfig, or use get_best_trial(metric, mode)"
            )


Analysis = ExperimentAnalysis  # its name until Ray 2.0


class _ByTrial(dict[str, Any]):
    """Values by the ids of trials; asked for one by its folder, as was usual once, it is found."""

    def __init__(self, values: dict[str, Any], find: Callable[[str], Trial]) -> None:
        super().__init__(values)
        self._find = find

    def __missing__(self, folder: str) -> Any:
        try:
            return self[self._find(folder).trial_id]
        except ValueError:
            raise KeyError(folder) from None


def _storage_at(path: Any, filesystem: object) -> Storage:
    if isinstance(path, Storage):
        return path
    text = os.fspath(path)
    if text.endswith(STATE_FILE):
        text = text[: -len(STATE_FILE)].rstrip("/")
    return Storage.at(text, filesystem)


def _experiments_in(storage: Storage) -> list[Storage]:
    """Find the experiments of a folder: itself if it is that of one, else those inside of it."""
    if storage.exists(STATE_FILE):
        return [storage]
    inside = [name for name in storage.names() if storage.exists(f"{name}/{STATE_FILE}")]
    if not inside:
        raise ValueError(
            f"there is no experiment at {storage.path!r}, which has no {STATE_FILE}; give the "
            "folder of a search, which is storage_path/name"
        )
    return [storage.sub(name) for name in inside]


def with_own_aim(path: str, metric: str | None, mode: str | None) -> ExperimentAnalysis:
    """Look at an experiment, by the metric of its search where no other is asked for.

    Args:
        path: The experiment's folder.
        metric: What trials are compared by; None is what the search has compared by.
        mode: Whether larger values are better, "max", or smaller ones, "min"; None is the
            search's, or "min".
    """
    analysis = ExperimentAnalysis(path)
    own_metric, own_mode = aim_of(_experiments_in(analysis._storage)[0])
    analysis.default_metric = metric or own_metric
    analysis.default_mode = mode or own_mode or "min"
    return analysis


def _stored_trials(storage: Storage, allow_pickle: bool) -> list[Trial]:
    """Read the trials of a folder; those that run, or were killed, as far as their files say."""
    trials = [trial for one in _experiments_in(storage) for trial in trials_of(one, stub=True)]
    for trial in trials:
        trial.allow_pickle = allow_pickle
        if not trial.is_finished() and (history := _history(trial)):
            trial.take_history(history)
            trial.status = trial.RUNNING
    return trials


def _history(trial: Trial) -> list[ResultRow]:
    """Read all results of a trial; of one that was repeated after a failure, the later."""
    by_iteration: dict[float, dict[str, Any]] = {}
    for number, row in enumerate(trial.storage.lines(EXPR_RESULT_FILE)):
        iteration = row.get(TRAINING_ITERATION)
        by_iteration[iteration if isinstance(iteration, (int, float)) else -number - 1] = row
    return list(by_iteration.values())


def _row_of(trial: Trial) -> dict[str, object]:
    """Return what a table shows of a trial."""
    own = {name: value for name, value in trial.last_result.items() if name not in AUTOMATIC}
    return {
        "trial": trial.trial_id,
        "state": trial.status,
        "iterations": trial.last_result.get(TRAINING_ITERATION),
        **dict(flatten(own)),
        **{f"config/{name}": value for name, value in flatten_dict(trial.config).items()},
    }
