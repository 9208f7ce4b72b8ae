"""HyperBand as BOHB wants it: the largest bracket first, and results with their budget."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._run.types import ResultRow
from skate.tune.schedulers.hyperband import Bracket, HyperBandScheduler
from skate.tune.schedulers.trial_scheduler import PAUSED, PENDING, RUNNING, TrialScheduler

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.trial import Trial


class HyperBandForBOHB(HyperBandScheduler):
    """Halve brackets as `HyperBandScheduler` does, together with the searcher `TuneBOHB`.

    Trials are paused before their bracket is full, so that the searcher learns from them before it
    suggests the next.

    Args:
        time_attr: The reported metric that is the time.
        metric: The reported metric by which trials are compared; by default that of `TuneConfig`.
        mode: Whether a larger value is better, "max", or a smaller one, "min"; by default that of
            `TuneConfig`.
        max_t: The most that a trial may run, in units of `time_attr`.
        reduction_factor: One trial in so many goes on.
        stop_last_trials: Whether those that are left at `max_t` end.
    """

    def _next_s(self, position: int) -> int:
        return self._brackets_per_band - position - 1

    def _place(self, trial: Trial) -> Bracket:
        if self._current is not None and self._current.is_closed():
            self._current = None  # who came later would be compared with those that were chosen
        return super()._place(trial)

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        bracket = self._bracket_of[trial.trial_id]
        result["hyperband_info"] = {}
        bracket.update(trial, result)
        if bracket.goes_on(trial):
            return TrialScheduler.CONTINUE
        result["hyperband_info"]["budget"] = bracket._until
        action = TrialScheduler.PAUSE
        if bracket.is_closed():
            action = self._process(tune_controller, bracket, trial)
        if action == TrialScheduler.PAUSE:
            _tell(tune_controller, "on_pause", trial)
        return action

    def _is_complete(self, bracket: Bracket) -> bool:
        return bracket.is_closed()

    def _on_unpause(self, tune_controller: TuneController, trial: Trial) -> None:
        _tell(tune_controller, "on_unpause", trial)

    def choose_trial_to_run(
        self, tune_controller: TuneController, allow_recurse: bool = True
    ) -> Trial | None:
        """Return a trial of the bracket that is least far; None if none waits.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            allow_recurse: Whether it may look once more after a bracket was filled.
        """
        if self._taken_up:
            self._settle(tune_controller)
        self._forget_empty_brackets()
        found = self._first_that_may_run()
        if found is not None or not allow_recurse:
            return found
        if any(trial.status == RUNNING for trial in tune_controller.get_live_trials()):
            return None
        # nobody runs and nobody comes: what there is of a bracket is halved as it is
        for bracket in self._all_brackets():
            if any(trial.status in (PENDING, PAUSED) for trial in bracket.trials()):
                self._process(tune_controller, bracket, None)
                found = self._first_that_may_run()
                if found is not None:
                    return found
        return None

    def _first_that_may_run(self) -> Trial | None:
        for bracket in self._all_brackets():
            for trial in bracket.trials():
                if bracket.may_run(trial):
                    return trial
        return None


def _tell(tune_controller: TuneController, event: str, trial: Trial) -> None:
    """Tell the searcher of a pause or its end: paused trials do not count as concurrent ones."""
    searcher = getattr(tune_controller.search_alg, "searcher", None)
    method = getattr(searcher, event, None)
    if method is not None:
        method(trial.trial_id)
