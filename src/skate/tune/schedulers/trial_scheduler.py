"""What a scheduler has to do: say after each result whether a trial goes on."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from skate._run.types import ResultRow
from skate.tune.result import DEFAULT_METRIC, TRAINING_ITERATION
from skate.tune.search._files import SavesState

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.trial import Trial

PENDING, RUNNING, PAUSED = "PENDING", "RUNNING", "PAUSED"

DecisionTimes = tuple[str, tuple[float, ...]]
"""A metric that counts time, and its values from which on there is something to decide."""


class TrialScheduler(SavesState):
    """Say after each result whether a trial goes on: the base of all schedulers.

    A trial waits at its report, or at those that `decision_times` says, until the scheduler has
    answered: CONTINUE, PAUSE (it gives up
    its resources and goes on later from its checkpoint), STOP, or NOOP when the scheduler has
    already told the controller what to do with it.
    """

    CONTINUE = "CONTINUE"
    PAUSE = "PAUSE"
    STOP = "STOP"
    NOOP = "NOOP"

    _metric: str | None = None
    _mode: str | None = None
    _needs_mode = False

    _supports_buffered_results = True

    def __init__(self) -> None:
        """Take nothing; most of those that derive from it take settings."""

    @property
    def supports_buffered_results(self) -> bool:
        """Whether several results may come at once; here each comes when it is reported."""
        return self._supports_buffered_results

    @property
    def metric(self) -> str | None:
        """The name of what is compared."""
        return self._metric

    def set_search_properties(self, metric: str | None, mode: str | None, **spec: Any) -> bool:
        """Take metric and mode from the tuner.

        Args:
            metric: The metric of `TuneConfig`.
            mode: Its mode.
            spec: What else is known of the experiment.

        Returns:
            `False` if they are set already.
        """
        if (self._metric and metric) or (self._needs_mode and self._mode and mode):
            return False
        self._metric = metric or self._metric
        self._mode = mode or self._mode
        if self._metric is None and (self._mode or not self._needs_mode):
            self._metric = DEFAULT_METRIC
        return True

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        """Note a new trial, or one that begins again.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            trial: The trial.
        """
        raise NotImplementedError

    def on_trial_error(self, tune_controller: TuneController, trial: Trial) -> None:
        """Note that a running trial has failed.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            trial: The trial.
        """
        raise NotImplementedError

    def learn_from(self, trial: Trial, results: Iterable[ResultRow]) -> None:
        """Learn what a trial reported before this program took the search up.

        The trial may have ended; its results are on record, and nothing is to be decided.

        Args:
            trial: The trial.
            results: All of its results.
        """

    def needs_checkpoint(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> bool:
        """Return whether the trial is to save before `on_trial_result` is asked about a result.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            trial: The trial.
            result: What it has reported.
        """
        return False

    def decision_times(self, trial: Trial) -> DecisionTimes | None:
        """Return at which results a trial has to wait for `on_trial_result`.

        It waits at the first result from each of some values of a metric on. `None` is at every
        result.

        Args:
            trial: The trial, which is about to begin.
        """
        return None

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        """Decide how a running trial that has reported goes on.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            trial: The trial.
            result: What it has reported.

        Returns:
            CONTINUE, PAUSE, STOP or NOOP.
        """
        raise NotImplementedError

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> None:
        """Note that a running trial has ended, or was stopped.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            trial: The trial.
            result: Its last result.
        """
        raise NotImplementedError

    def on_trial_remove(self, tune_controller: TuneController, trial: Trial) -> None:
        """Note that a trial was ended that is not running.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            trial: The trial.
        """
        raise NotImplementedError

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Return the waiting or paused trial that is to run next; `None` if none is.

        Args:
            tune_controller: The state of the experiment, with `get_live_trials()`.
        """
        raise NotImplementedError

    def debug_string(self) -> str:
        """Return one or a few lines for people."""
        return f"Using {type(self).__name__}."

    # -- for schedulers that compare ---------------------------------------------------------

    def _set_mode(self, metric: str | None, mode: str | None) -> None:
        if mode not in (None, "min", "max"):
            raise ValueError(f"mode takes 'min' or 'max'; got {mode!r}")
        self._metric = metric
        self._mode = mode

    def _score(self, result: ResultRow) -> float:
        """Return the metric, such that more is better."""
        value = float(result[self._metric or DEFAULT_METRIC])
        return value if self._mode == "max" else -value

    def _check_metric(self) -> None:
        if not self._metric or not self._mode:
            raise ValueError(
                f"{type(self).__name__} has been instantiated without a valid `metric` "
                f"({self._metric}) or `mode` ({self._mode}) parameter: give both to the "
                f"scheduler, or to TuneConfig"
            )


class FIFOScheduler(TrialScheduler):
    """Run trials in the order in which they were made, to their end."""

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        pass

    def on_trial_error(self, tune_controller: TuneController, trial: Trial) -> None:
        pass

    def decision_times(self, trial: Trial) -> DecisionTimes | None:
        # a subclass decides by itself
        return (TRAINING_ITERATION, ()) if type(self) is FIFOScheduler else None

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        return TrialScheduler.CONTINUE

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> None:
        pass

    def on_trial_remove(self, tune_controller: TuneController, trial: Trial) -> None:
        pass

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        paused = None
        for trial in tune_controller.get_live_trials():
            if trial.status == PENDING:
                found: Trial = trial
                return found
            if trial.status == PAUSED and paused is None and not trial.is_saving:
                paused = trial
        return paused

    def debug_string(self) -> str:
        return "Using FIFO scheduling algorithm."
