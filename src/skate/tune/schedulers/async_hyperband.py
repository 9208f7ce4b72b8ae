"""Asynchronous successive halving (ASHA): at each rung, stop what is not among the best so far."""

from __future__ import annotations

import bisect
import math
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from skate._run.types import ResultRow
from skate.tune.schedulers.trial_scheduler import DecisionTimes, FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.trial import Trial


class AsyncHyperBandScheduler(FIFOScheduler):
    """Stop a trial at each rung unless it is among the best of all that came there before.

    Rungs are at `grace_period` and at each multiple of it by `reduction_factor`. This is ASHA, see
    https://arxiv.org/abs/1810.05934.

    Args:
        time_attr: The reported metric that is the time.
        metric: The reported metric by which trials are compared; by default that of `TuneConfig`.
        mode: Whether a larger value is better, "max", or a smaller one, "min"; by default that of
            `TuneConfig`.
        max_t: When all trials end, in units of `time_attr`.
        grace_period: Before which no trial is stopped.
        reduction_factor: One trial in so many goes on at a rung.
        brackets: Into how many groups trials are put at random; later ones begin to stop later.
        stop_last_trials: Whether trials end at `max_t`.

    Raises:
        ValueError: If these numbers make no sense together.

    Example:
        >>> from skate import tune
        >>> from skate.tune.schedulers import ASHAScheduler
        >>> tune.TuneConfig(scheduler=ASHAScheduler(max_t=50), metric="loss", mode="min").mode
        'min'
    """

    _needs_mode = True

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 100,
        grace_period: int = 1,
        reduction_factor: float = 4,
        brackets: int = 1,
        stop_last_trials: bool = True,
    ) -> None:
        if not 0 < grace_period <= max_t:
            raise ValueError(
                f"0 < grace_period <= max_t must hold; got grace_period={grace_period} and "
                f"max_t={max_t}"
            )
        if not reduction_factor > 1:
            raise ValueError(f"reduction_factor takes a number above 1; got {reduction_factor}")
        if brackets < 1:
            raise ValueError(f"brackets takes a number from 1; got {brackets}")
        super().__init__()
        self._set_mode(metric, mode)
        self._time_attr = time_attr
        self._max_t = max_t
        self._reduction_factor = reduction_factor
        self._stop_last_trials = stop_last_trials
        self._brackets = [
            HalvingBracket(grace_period, max_t, reduction_factor, s, stop_last_trials)
            for s in range(brackets)
        ]
        self._trial_info: dict[str, HalvingBracket] = {}
        self._num_stopped = 0

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        self._check_metric()
        self._trial_info[trial.trial_id] = self._any_bracket()

    def _any_bracket(self) -> HalvingBracket:
        weights = [math.exp(len(bracket.rungs)) for bracket in self._brackets]
        return random.choices(self._brackets, weights)[0]

    def decision_times(self, trial: Trial) -> DecisionTimes | None:
        if type(self) is not AsyncHyperBandScheduler:  # a subclass may decide elsewhere
            return None
        milestones = {rung.milestone for rung in self._trial_info[trial.trial_id].rungs}
        return self._time_attr, tuple(sorted({*milestones, self._max_t}))

    def learn_from(self, trial: Trial, results: Iterable[ResultRow]) -> None:
        bracket = self._trial_info.get(trial.trial_id) or self._any_bracket()
        for result in results:
            if self._time_attr in result and self._metric in result:
                bracket.on_result(trial, result[self._time_attr], self._score(result))

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        if self._time_attr not in result or self._metric not in result:
            return TrialScheduler.CONTINUE
        time = result[self._time_attr]
        if time >= self._max_t and self._stop_last_trials:
            action = TrialScheduler.STOP
        else:
            bracket = self._trial_info[trial.trial_id]
            action = bracket.on_result(trial, time, self._score(result))
        self._num_stopped += action == TrialScheduler.STOP
        return action

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> None:
        bracket = self._trial_info.pop(trial.trial_id, None)
        if bracket and self._time_attr in result and self._metric in result:
            bracket.on_result(trial, result[self._time_attr], self._score(result))

    def on_trial_error(self, tune_controller: TuneController, trial: Trial) -> None:
        self._trial_info.pop(trial.trial_id, None)

    def on_trial_remove(self, tune_controller: TuneController, trial: Trial) -> None:
        self._trial_info.pop(trial.trial_id, None)

    def debug_string(self) -> str:
        lines = [f"Using AsyncHyperBand: num_stopped={self._num_stopped}"]
        return "\n".join([*lines, *(bracket.debug_str() for bracket in self._brackets)])


class Rung:
    """The scores of all trials that came to a milestone."""

    def __init__(self, milestone: float) -> None:
        self.milestone = milestone
        self.trials: set[str] = set()
        self._sorted: list[float] = []

    def add(self, trial_id: str, score: float) -> None:
        """Note that a trial came here, with this score."""
        self.trials.add(trial_id)
        if not math.isnan(score):
            bisect.insort(self._sorted, score)

    def cutoff(self, reduction_factor: float) -> float | None:
        """Return the score that separates the best 1/`reduction_factor` from the others.

        It is interpolated between neighbours; None if nobody was here.
        """
        if not self._sorted:
            return None
        position = (1 - 1 / reduction_factor) * (len(self._sorted) - 1)
        below = math.floor(position)
        above = min(below + 1, len(self._sorted) - 1)
        low, high = self._sorted[below], self._sorted[above]
        share = position - below
        return low if low == high or share == 0 else low + (high - low) * share


class HalvingBracket:
    """The rungs of one halving schedule, the latest first."""

    def __init__(
        self,
        min_t: float,
        max_t: float,
        reduction_factor: float,
        s: int,
        stop_last_trials: bool = True,
    ) -> None:
        self._factor = reduction_factor
        self._stop_last_trials = stop_last_trials
        count = int(math.log(max_t / min_t) / math.log(reduction_factor) - s + 1)
        self.rungs: list[Rung] = [
            Rung(min_t * reduction_factor ** (k + s)) for k in reversed(range(count))
        ]

    def on_result(self, trial: Trial, time: float, score: float) -> str:
        """Put the result onto the highest rung that the trial has reached for the first time."""
        for rung in self.rungs:
            if time < rung.milestone:
                continue
            if trial.trial_id in rung.trials:
                if not self._stop_last_trials:
                    break
                continue
            cutoff = rung.cutoff(self._factor)
            rung.add(trial.trial_id, score)
            if cutoff is not None and score < cutoff:
                return TrialScheduler.STOP
            break
        return TrialScheduler.CONTINUE

    def debug_str(self) -> str:
        """Show the cutoff of each rung, as text."""
        parts = (f"Iter {r.milestone:.3f}: {r.cutoff(self._factor)}" for r in self.rungs)
        return "HalvingBracket: " + " | ".join(parts)


ASHAScheduler = AsyncHyperBandScheduler
