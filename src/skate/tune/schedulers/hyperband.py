"""HyperBand: brackets of trials that are halved again and again, all at the same time.

    band ─┬─ bracket s=0:  few trials, each may run to max_t
          ├─ bracket s=1:  more trials with a shorter first round; the best 1/eta go on
          └─ bracket s=…   until the band is full, then the next band begins

A trial that has finished its round is paused until all of its bracket have; then the worst are
stopped and the others go on for a round that is eta times as long.
"""

from __future__ import annotations

import collections
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from skate._run.types import ResultRow
from skate.tune.schedulers.trial_scheduler import (
    PAUSED,
    PENDING,
    FIFOScheduler,
    TrialScheduler,
)

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.trial import Trial


class HyperBandScheduler(FIFOScheduler):
    """Halve brackets of trials again and again, each when all of its trials have come as far.

    Trials pause while they wait for the others, so that they must save and load checkpoints.

    Args:
        time_attr: The reported metric that is the time.
        metric: The reported metric by which trials are compared; by default that of `TuneConfig`.
        mode: Whether a larger value is better, "max", or a smaller one, "min"; by default that of
            `TuneConfig`.
        max_t: The most that a trial may run, in units of `time_attr`.
        reduction_factor: One trial in so many goes on; called eta in the literature.
        stop_last_trials: Whether those that are left at `max_t` end.

    Raises:
        ValueError: If these numbers make no sense.
    """

    _needs_mode = True

    def __init__(
        self,
        time_attr: str = "training_iteration",
        metric: str | None = None,
        mode: str | None = None,
        max_t: int = 81,
        reduction_factor: float = 3,
        stop_last_trials: bool = True,
    ) -> None:
        if not max_t > 0:
            raise ValueError(f"max_t takes a number above 0; got {max_t}")
        if not reduction_factor > 1:
            raise ValueError(f"reduction_factor takes a number above 1; got {reduction_factor}")
        super().__init__()
        self._set_mode(metric, mode)
        self._time_attr = time_attr
        self._max_t = max_t
        self._eta = reduction_factor
        self._stop_last_trials = stop_last_trials
        self._brackets_per_band = round(math.log(max_t) / math.log(reduction_factor)) + 1
        self._bands: list[list[Bracket]] = []  # those that are not over
        self._num_brackets = 0
        self._current: Bracket | None = None
        self._bracket_of: dict[str, Bracket] = {}
        self._num_stopped = 0
        self._taken_up = False

    # -- brackets ----------------------------------------------------------------------------

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        self._check_metric()
        self._place(trial)

    def _place(self, trial: Trial) -> Bracket:
        while self._current is None or self._current.filled():
            self._current = self._next_bracket()
        self._current.add_trial(trial)
        self._bracket_of[trial.trial_id] = self._current
        return self._current

    def _next_bracket(self) -> Bracket | None:
        """Make the next bracket of the band; None if its first round would be empty."""
        position = self._num_brackets % self._brackets_per_band
        self._num_brackets += 1
        if position == 0:
            self._bands.append([])
        s = self._next_s(position)
        rounds = int(self._max_t * self._eta**-s)
        size = math.ceil(self._brackets_per_band / (s + 1) * self._eta**s)
        if not rounds:
            return None
        bracket = Bracket(self, size, rounds, s)
        self._bands[-1].append(bracket)
        return bracket

    def _next_s(self, position: int) -> int:
        return position

    def _all_brackets(self) -> list[Bracket]:
        return [bracket for band in self._bands for bracket in band]

    def _forget_empty_brackets(self) -> None:
        *earlier, last = self._bands or [[]]
        kept = [[bracket for bracket in band if bracket.trials()] for band in earlier]
        last = [bracket for bracket in last if bracket.trials() or bracket is self._current]
        self._bands = [*filter(None, kept), last]

    # -- taking up ---------------------------------------------------------------------------

    def learn_from(self, trial: Trial, results: Iterable[ResultRow]) -> None:
        """Take up a trial of an interrupted experiment.

        Trials come in the order of their making, and so into the brackets that they were in. Those
        that have ended hold their places until all have come.

        Args:
            trial: The trial.
            results: What it has reported so far.
        """
        self._taken_up = True
        bracket = self._bracket_of.get(trial.trial_id) or self._place(trial)
        for result in results:
            if self._time_attr in result and self._metric in result:
                bracket.update(trial, result)

    def _settle(self, tune_controller: TuneController) -> None:
        """Halve what had been halved already.

        It is the same once more, because a round ends with so many trials, whoever has gone on
        since.
        """
        self._taken_up = False
        for bracket in self._all_brackets():
            for trial in bracket.trials():
                if trial.is_finished():
                    bracket.forget(trial)
                    del self._bracket_of[trial.trial_id]
            if bracket.is_due() and self._is_complete(bracket):
                self._process(tune_controller, bracket, None)

    # -- trials ------------------------------------------------------------------------------

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        bracket = self._bracket_of[trial.trial_id]
        bracket.update(trial, result)
        if bracket.goes_on(trial):
            return TrialScheduler.CONTINUE
        return self._process(tune_controller, bracket, trial)

    def _process(
        self, tune_controller: TuneController, bracket: Bracket, current: Trial | None
    ) -> str:
        """Halve the bracket if all of its trials are there; what becomes of the current one?"""
        if not bracket.round_done():
            return TrialScheduler.PAUSE
        bracket.being_processed = True
        try:
            return self._next_round(tune_controller, bracket, current)
        finally:
            bracket.being_processed = False

    def _next_round(
        self, tune_controller: TuneController, bracket: Bracket, current: Trial | None
    ) -> str:
        if bracket.finished():
            return self._end(tune_controller, bracket, current)
        action = self._halve(tune_controller, bracket, current)
        if not bracket.is_due():
            return action
        # those that are left have done the next round as well, as one that was tried again may
        if action != TrialScheduler.STOP:
            return self._next_round(tune_controller, bracket, current)
        self._next_round(tune_controller, bracket, None)
        return action

    def _halve(
        self, tune_controller: TuneController, bracket: Bracket, current: Trial | None
    ) -> str:
        good, bad = bracket.halve()
        self._num_stopped += len(bad)
        action = TrialScheduler.PAUSE
        for trial in bad:
            bracket.forget(trial)
            if trial is current:
                action = TrialScheduler.STOP
            else:
                tune_controller.stop_trial(trial)
        for trial in good:
            if not bracket.goes_on(trial):
                continue
            if trial is current:
                action = TrialScheduler.CONTINUE
            elif trial.status == PAUSED:
                bracket.ready.add(trial.trial_id)
                self._on_unpause(tune_controller, trial)
        return action

    def _end(
        self, tune_controller: TuneController, bracket: Bracket, current: Trial | None
    ) -> str:
        for trial in bracket.trials():
            bracket.forget(trial)
            if trial is not current and trial.status in (PENDING, PAUSED):
                tune_controller.stop_trial(trial)
        return TrialScheduler.STOP

    def _on_unpause(self, tune_controller: TuneController, trial: Trial) -> None:
        pass

    def on_trial_remove(self, tune_controller: TuneController, trial: Trial) -> None:
        bracket = self._bracket_of.pop(trial.trial_id, None)
        if bracket is None:
            return
        bracket.forget(trial)
        # whoever was waiting for this one need not wait any more
        waiting = bracket.trials() and not bracket.being_processed and bracket.round_done()
        if waiting and self._is_complete(bracket):
            self._process(tune_controller, bracket, None)

    def _is_complete(self, bracket: Bracket) -> bool:
        """Return whether no more trials will join the bracket."""
        return True

    def on_trial_complete(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> None:
        self.on_trial_remove(tune_controller, trial)

    def on_trial_error(self, tune_controller: TuneController, trial: Trial) -> None:
        self.on_trial_remove(tune_controller, trial)

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Return a trial of the bracket that is least far; None if none waits.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
        """
        if self._taken_up:
            self._settle(tune_controller)
        self._forget_empty_brackets()
        for band in self._bands:
            for bracket in sorted(band, key=lambda b: b.share_done()):
                for trial in bracket.trials():
                    if bracket.may_run(trial):
                        return trial
        return None

    def debug_string(self) -> str:
        lines = [
            f"Using HyperBand: num_stopped={self._num_stopped} total_brackets={self._num_brackets}"
        ]
        for number, band in enumerate(self._bands):
            lines.append(f"Round #{number}:")
            lines += [f"  {bracket}" for bracket in band]
        return "\n".join(lines)

    def state(self) -> dict[str, int]:
        """Return how many brackets there are, and how many trials were stopped."""
        return {"num_brackets": self._num_brackets, "num_stopped": self._num_stopped}


class Bracket:
    """Trials that are halved together."""

    def __init__(self, owner: HyperBandScheduler, size: int, first_round: int, s: int) -> None:
        self._owner = owner
        self._size = size
        self._halvings = s
        self._until = first_round
        self._live: dict[str, Trial] = {}
        self._results: dict[str, dict[str, Any]] = {}
        self._all: list[Trial] = []
        self._work_done = 0.0
        self._work = _total_work(size, first_round, s, owner._eta, owner._max_t)
        self.ready: set[str] = set()
        self.being_processed = False
        self._planned = size

    def add_trial(self, trial: Trial) -> None:
        self._live[trial.trial_id] = trial
        self._all.append(trial)

    def forget(self, trial: Trial) -> None:
        """Forget a trial that has ended, or begins again."""
        self._live.pop(trial.trial_id, None)
        self._results.pop(trial.trial_id, None)
        self.ready.discard(trial.trial_id)

    def trials(self) -> list[Trial]:
        return list(self._live.values())

    def filled(self) -> bool:
        return len(self._live) >= self._size

    def is_closed(self) -> bool:
        """Return whether all of its trials have come, or it was halved without the others."""
        return len(self._all) >= self._planned

    def update(self, trial: Trial, result: ResultRow) -> None:
        self._work_done += result[self._owner._time_attr] - self._time(trial.trial_id)
        self._results[trial.trial_id] = result
        self.ready.discard(trial.trial_id)

    def _time(self, trial_id: str) -> float:
        result = self._results.get(trial_id)
        return 0.0 if result is None else result[self._owner._time_attr]

    def goes_on(self, trial: Trial) -> bool:
        """Return whether the trial's round is not over."""
        if not self._owner._stop_last_trials and self._halvings == 0:
            return True
        return self._time(trial.trial_id) < self._until

    def round_done(self) -> bool:
        return all(self._time(trial_id) >= self._until for trial_id in self._live)

    def is_due(self) -> bool:
        """Return whether its trials wait to be halved, or to be told that they are done."""
        rounds_left = self._halvings > 0 or self._owner._stop_last_trials
        return bool(self._live) and rounds_left and self.round_done()

    def finished(self) -> bool:
        return self._owner._stop_last_trials and self._halvings == 0 and self.round_done()

    def may_run(self, trial: Trial) -> bool:
        """Return whether a trial waits for resources, and not for the others of its bracket."""
        if trial.status not in (PENDING, PAUSED) or trial.is_saving:
            return False
        return trial.trial_id in self.ready or self.goes_on(trial)

    def halve(self) -> tuple[list[Trial], list[Trial]]:
        """Begin the next round, and return those that stay in, and the others."""
        ranked = sorted(
            self._live.values(), key=lambda t: self._owner._score(self._results[t.trial_id])
        )
        if self._halvings == 0:
            return ranked, []
        self._planned = 0
        self._halvings -= 1
        self._size = math.ceil(self._size / self._owner._eta)
        self._until = int(min(self._until * self._owner._eta, self._owner._max_t))
        return ranked[-self._size :], ranked[: -self._size]

    def share_done(self) -> float:
        return 1.0 if self.finished() else min(self._work_done / max(self._work, 1), 1.0)

    def __repr__(self) -> str:
        counts = collections.Counter(trial.status for trial in self._all)
        states = ", ".join(f"{status}: {count}" for status, count in sorted(counts.items()))
        return (
            f"Bracket(Max Size (n)={self._size}, Milestone (r)={self._until}, "
            f"completed={self.share_done():.1%}): {{{states}}}"
        )


def _total_work(size: float, rounds: float, s: int, eta: float, max_t: float) -> float:
    work, done = 0.0, 0.0
    for _ in range(s + 1):
        work += size * (rounds - done)
        done = rounds
        size = math.ceil(size / eta)
        rounds = int(min(rounds * eta, max_t))
    return work
