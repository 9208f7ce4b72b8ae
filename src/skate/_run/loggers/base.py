"""Loggers: callbacks that follow each trial from its start to its end."""

from __future__ import annotations

from typing import Any

from skate._run.callbacks import Callback
from skate._run.types import ResultRow


class LoggerCallback(Callback):
    """Override `log_trial_start`, `log_trial_result` and `log_trial_end`."""

    def __init__(self) -> None:
        self._started: set[Any] = set()

    def log_trial_start(self, trial: Any) -> None:
        """Begin to log a trial: called once, before its first result.

        Args:
            trial: The trial, with its `trial_id`, its `config` and its folder `local_path`.
        """

    def log_trial_restore(self, trial: Any) -> None:
        """Log that a trial goes on from a checkpoint.

        Args:
            trial: The trial.
        """

    def log_trial_save(self, trial: Any) -> None:
        """Log that a checkpoint is there.

        Args:
            trial: The trial, with the checkpoint as its `checkpoint`.
        """

    def log_trial_result(self, iteration: int, trial: Any, result: ResultRow) -> None:
        """Log a result that came.

        Args:
            iteration: How many results there were of all trials, with this one.
            trial: The trial that reported it.
            result: What was reported, with what the run adds.
        """

    def log_trial_end(self, trial: Any, failed: bool = False) -> None:
        """Log that a trial is over.

        Args:
            trial: The trial.
            failed: Whether an error ended it.
        """

    def _start_once(self, trial: Any) -> None:
        started = self.__dict__.setdefault("_started", set())  # subclasses may not call __init__
        if trial.trial_id not in started:
            started.add(trial.trial_id)
            self.log_trial_start(trial)

    def _end(self, trial: Any, failed: bool) -> None:
        self._start_once(trial)
        self.log_trial_end(trial, failed=failed)
        self._started.discard(trial.trial_id)

    def on_trial_start(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        self._start_once(trial)

    def on_trial_restore(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        self.log_trial_restore(trial)

    def on_trial_save(self, iteration: int, trials: list[Any], trial: Any, **info: object) -> None:
        self.log_trial_save(trial)

    def on_trial_result(
        self,
        iteration: int,
        trials: list[Any],
        trial: Any,
        result: ResultRow,
        **info: object,
    ) -> None:
        if trial.trial_id not in self.__dict__.get("_started", ()):
            self._start_once(trial)
        self.log_trial_result(iteration, trial, result)

    def on_trial_complete(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        self._end(trial, failed=False)

    def on_trial_error(
        self, iteration: int, trials: list[Any], trial: Any, **info: object
    ) -> None:
        self._end(trial, failed=True)
