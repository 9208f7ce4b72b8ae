"""Stop a trial whose best result is worse than the median of the others' averages."""

from __future__ import annotations

import bisect
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING

from skate._run.types import ResultRow
from skate.tune.schedulers.trial_scheduler import PAUSED, PENDING, FIFOScheduler, TrialScheduler

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.trial import Trial


class MedianStoppingRule(FIFOScheduler):
    """Stop a trial whose best result is worse than the median of the others' running means.

    Args:
        time_attr: The reported metric that is the time.
        metric: The reported metric by which trials are compared; by default that of `TuneConfig`.
        mode: Whether a larger value is better, "max", or a smaller one, "min"; by default that of
            `TuneConfig`.
        grace_period: Before which no trial is stopped, in units of `time_attr`.
        min_samples_required: How many other trials must have come as far.
        min_time_slice: After how much time a trial gives way to waiting ones until then.
        hard_stop: Whether trials are stopped; `False` pauses them, until all others have ended.
    """

    _needs_mode = True

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        grace_period: float = 60.0,
        min_samples_required: int = 3,
        min_time_slice: float = 0,
        hard_stop: bool = True,
    ) -> None:
        super().__init__()
        self._set_mode(metric, mode)
        self._time_attr = time_attr
        self._grace_period = grace_period
        self._min_samples_required = min_samples_required
        self._min_time_slice = min_time_slice
        self._hard_stop = hard_stop
        self._stopped_trials: set[str] = set()
        self._histories: dict[str, _History] = {}
        self._last_pause: dict[str, float] = {}
        self._last_times: list[float] = []  # of all trials, in order
        self._means_at: dict[float, list[float]] = {}  # by whole times, in order

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        self._check_metric()

    def learn_from(self, trial: Trial, results: Iterable[ResultRow]) -> None:
        for result in results:
            if self._time_attr in result and self._metric in result:
                self._note(trial, result)

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        if self._time_attr not in result or self._metric not in result:
            return TrialScheduler.CONTINUE
        if trial.trial_id in self._stopped_trials:
            return TrialScheduler.CONTINUE  # it was paused once, and has its way now
        time = result[self._time_attr]
        history = self._note(trial, result)
        if time < self._grace_period:
            return TrialScheduler.CONTINUE
        means = self._means_of_others(trial, time)
        if len(means) < self._min_samples_required:
            return self._too_few(tune_controller, trial, time)
        if history.best >= _median(means):
            return TrialScheduler.CONTINUE
        self._stopped_trials.add(trial.trial_id)
        return TrialScheduler.STOP if self._hard_stop else TrialScheduler.PAUSE

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> None:
        if self._time_attr in result and self._metric in result:
            self._note(trial, result)

    def _note(self, trial: Trial, result: ResultRow) -> _History:
        history = self._histories.setdefault(trial.trial_id, _History())
        time = result[self._time_attr]
        if time <= history.last_time:  # its end, or a trial that repeats what a failure undid
            return history
        _move(self._last_times, history.last_time, time)
        history.add(time, self._score(result), self._grace_period)
        mean = history.mean_until(time)
        if isinstance(time, int) and math.isfinite(mean):
            bisect.insort(self._means_at.setdefault(time, []), mean)
        return history

    def _means_of_others(self, trial: Trial, time: float) -> list[float]:
        """Return the means of the other trials, in order.

        Where times are steps, all of them are known from the reports at that step; else each
        history is asked.
        """
        own = self._histories[trial.trial_id].mean_until(time)
        known = self._means_at.get(time, [])
        there = len(self._last_times) - bisect.bisect_left(self._last_times, time)
        if len(known) == there and math.isfinite(own):
            place = bisect.bisect_left(known, own)
            return known[:place] + known[place + 1 :]
        others = (h for name, h in self._histories.items() if name != trial.trial_id)
        means = (other.mean_until(time) for other in others if other.last_time >= time)
        return sorted(mean for mean in means if math.isfinite(mean))

    def _too_few(self, tune_controller: TuneController, trial: Trial, time: float) -> str:
        since = time - self._last_pause.get(trial.trial_id, float("-inf"))
        if since <= self._min_time_slice:
            return TrialScheduler.CONTINUE
        live = tune_controller.get_live_trials()
        if not any(other.status in (PENDING, PAUSED) for other in live):
            return TrialScheduler.CONTINUE
        self._last_pause[trial.trial_id] = time
        return TrialScheduler.PAUSE

    def debug_string(self) -> str:
        return f"Using MedianStoppingRule: num_stopped={len(self._stopped_trials)}."


def _move(ordered: list[float], old: float, new: float) -> None:
    """Replace a value of a list that is in order."""
    place = bisect.bisect_left(ordered, old)
    if place < len(ordered) and ordered[place] == old:
        del ordered[place]
    bisect.insort(ordered, new)


def _median(ordered: list[float]) -> float:
    middle = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[middle]
    return (ordered[middle - 1] + ordered[middle]) / 2


class _History:
    """The scores of a trial, more is better, with their sums so that means are cheap."""

    def __init__(self) -> None:
        self.best = float("-inf")
        self.last_time = float("-inf")
        self._times: list[float] = []
        self._sums: list[float] = []

    def add(self, time: float, score: float, since: float) -> None:
        self.last_time = time
        if math.isnan(score):
            return
        self.best = max(self.best, score)
        if time >= since:
            self._times.append(time)
            self._sums.append((self._sums[-1] if self._sums else 0.0) + score)

    def mean_until(self, time: float) -> float:
        """Compute the mean of the results after the grace period up to `time`."""
        count = bisect.bisect_right(self._times, time)
        return self._sums[count - 1] / count if count else math.nan
