"""Population-based training: bad trials go on from a copy of a good one, slightly changed."""

from __future__ import annotations

import json
import logging
import math
import os
import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skate._core import notices
from skate._run.folders import append_whole
from skate._run.types import Config, MetricsLike, ResultRow
from skate._run.values import to_json
from skate.tune.error import TuneError
from skate.tune.schedulers._explore import (
    check_space,
    explore,
    fill,
    mutated_part,
    perturbed_tag,
)
from skate.tune.schedulers.trial_scheduler import PAUSED, PENDING, FIFOScheduler, TrialScheduler
from skate.tune.search._files import write_atomically
from skate.tune.search.sample import Function
from skate.tune.search.search_generator import SearchGenerator

if TYPE_CHECKING:
    from skate.tune.execution.controller import TuneController
    from skate.tune.experiment.trial import Trial

logger: logging.Logger = logging.getLogger(__name__)


class PopulationBasedTraining(FIFOScheduler):
    """Let bad trials go on from the checkpoint of a good one, slightly changed.

    Changes are written to pbt_global.txt and pbt_policy_<trial>.txt, for
    `PopulationBasedTrainingReplay`.

    Args:
        time_attr: The reported metric that is the time.
        metric: The reported metric by which trials are compared; by default that of `TuneConfig`.
        mode: Whether a larger value is better, "max", or a smaller one, "min"; by default that of
            `TuneConfig`.
        perturbation_interval: Time between two rankings of a trial.
        burn_in_period: Time before the first of them.
        hyperparam_mutations: The parameters that change, with their domains or lists of values.
        quantile_fraction: The part of the trials, from 0 to 0.5, that counts as bad, and as good.
        resample_probability: How likely a value is drawn anew, and not multiplied.
        perturbation_factors: With one of which a number is multiplied.
        custom_explore_fn: Is given the changed configuration, and returns the one to use.
        log_config: Whether changes are written to files.
        require_attrs: Whether a result without `time_attr` or the metric is an error.
        synch: Whether all trials wait for each other at every interval.

    Raises:
        ValueError: If the numbers make no sense.
        TuneError: If there is nothing to change.
    """

    _needs_mode = True

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        burn_in_period: float = 0.0,
        hyperparam_mutations: dict[str, object] | None = None,
        quantile_fraction: float = 0.25,
        resample_probability: float = 0.25,
        perturbation_factors: tuple[float, ...] = (1.2, 0.8),
        custom_explore_fn: Callable[[dict[str, object]], dict[str, object]] | None = None,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
    ) -> None:
        _check_mutations(hyperparam_mutations or {}, custom_explore_fn)
        if not 0 <= quantile_fraction <= 0.5:
            raise ValueError(f"quantile_fraction is from 0 to 0.5; got {quantile_fraction}")
        if perturbation_interval <= 0:
            raise ValueError(f"perturbation_interval is above 0; got {perturbation_interval}")
        super().__init__()
        self._set_mode(metric, mode)
        self._time_attr = time_attr
        self._perturbation_interval = perturbation_interval
        self._burn_in_period = burn_in_period
        self._hyperparam_mutations = hyperparam_mutations or {}
        self._quantile_fraction = quantile_fraction
        self._resample_probability = resample_probability
        self._perturbation_factors = perturbation_factors
        self._custom_explore_fn = custom_explore_fn
        self._log_config = log_config
        self._require_attrs = require_attrs
        self._synch = synch
        self._first_sync = max(perturbation_interval, burn_in_period)
        self._next_perturbation_sync = self._first_sync
        self._states: dict[str, _State] = {}
        self._num_checkpoints = 0
        self._num_perturbations = 0

    def on_trial_add(self, tune_controller: TuneController, trial: Trial) -> None:
        if isinstance(tune_controller.search_alg, SearchGenerator):
            raise ValueError(
                f"{type(self).__name__} chooses configurations by itself; it cannot be used "
                f"with the searcher {type(tune_controller.search_alg.searcher).__name__}"
            )
        self._check_metric()
        self._states[trial.trial_id] = _State(trial)
        self._fill_config(trial)

    def _fill_config(self, trial: Trial) -> None:
        drawn = fill(trial.config, self._hyperparam_mutations)
        trial.evaluated_params.update(drawn)

    # -- taking up ---------------------------------------------------------------------------

    def learn_from(self, trial: Trial, results: Iterable[ResultRow]) -> None:
        state = self._states.get(trial.trial_id) or _State(trial)
        for result in results:
            time = result.get(self._time_attr)
            if time is not None and self._metric in result and self._is_time(state, time):
                self._note(state, time, result, trial)
                state.last_perturbation_time = time
        if trial.latest_checkpoint_result is not None:
            self._go_on_from(state, trial.latest_checkpoint_result.metrics)
        if self._synch:
            self._next_perturbation_sync = self._first_sync_ahead()

    def _go_on_from(self, state: _State, metrics: MetricsLike) -> None:
        """Set a trial's times to those of its checkpoint, if that is another trial's."""
        time, own = metrics.get(self._time_attr), state.trial.trial_id
        if time is not None and metrics.get("trial_id", own) != own:
            state.last_perturbation_time = state.last_train_time = time

    def _first_sync_ahead(self) -> float:
        """Find the next time at which the slowest of those that are left is waited for."""
        live = (s.last_train_time for s in self._states.values() if not s.trial.is_finished())
        past = math.floor(
            (min(live, default=0.0) - self._first_sync) / self._perturbation_interval
        )
        return self._first_sync + max(past + 1, 0) * self._perturbation_interval

    # -- results -----------------------------------------------------------------------------

    def needs_checkpoint(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> bool:
        """Return whether the trial is to save: others may go on from it at once, or it is paused.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
            trial: The trial.
            result: What it has reported.
        """
        if not self._is_due(trial, result):
            return False
        return self._synch or _others_wait(tune_controller) or self._is_good(trial, result)

    def _is_due(self, trial: Trial, result: ResultRow) -> bool:
        if not self._has_attributes(result):
            return False
        return self._is_time(self._states[trial.trial_id], result[self._time_attr])

    def _is_time(self, state: _State, time: float) -> bool:
        since = time - state.last_perturbation_time
        return bool(time >= self._burn_in_period and since >= self._perturbation_interval)

    def _is_good(self, trial: Trial, result: ResultRow) -> bool:
        """Return whether this result makes the trial one of the best."""
        state = self._states[trial.trial_id]
        before, state.last_score = state.last_score, self._score(result)
        try:
            return trial in self._quantiles()[1]
        finally:
            state.last_score = before

    def on_trial_result(
        self, tune_controller: TuneController, trial: Trial, result: ResultRow
    ) -> str:
        if not self._is_due(trial, result):
            return TrialScheduler.CONTINUE
        time = result[self._time_attr]
        state = self._states[trial.trial_id]
        self._note(state, time, result, trial)
        if self._synch:
            return self._when_all_are_here(tune_controller, trial, time)
        state.last_perturbation_time = time
        lower, upper = self._quantiles()
        others_wait = _others_wait(tune_controller)
        self._checkpoint_or_exploit(trial, tune_controller, upper, lower)
        if trial.status == PAUSED:
            return TrialScheduler.NOOP
        return TrialScheduler.PAUSE if others_wait else TrialScheduler.CONTINUE

    def _has_attributes(self, result: ResultRow) -> bool:
        missing = [name for name in (self._time_attr, self._metric) if name not in result]
        if missing and self._require_attrs:
            raise RuntimeError(
                f"Cannot find {missing} in the trial result, which has {list(result)}: report "
                f"them, or set require_attrs=False to pass over such results"
            )
        return not missing

    def _note(self, state: _State, time: float, result: ResultRow, trial: Trial) -> None:
        state.last_score = self._score(result)
        state.last_train_time = time
        state.last_result = result

    def _when_all_are_here(
        self, tune_controller: TuneController, trial: Trial, time: float
    ) -> str:
        live = tune_controller.get_live_trials()
        due = self._next_perturbation_sync
        behind = (t for t in live if t is not trial and self._time_of(t) < due)
        if next(behind, None) is None:
            self._perturb_all(tune_controller, live, time)
        return TrialScheduler.NOOP if trial.status == PAUSED else TrialScheduler.PAUSE

    def _time_of(self, trial: Trial) -> float:
        return self._states[trial.trial_id].last_train_time

    def _perturb_all(self, tune_controller: TuneController, live: Any, time: float) -> None:
        lower, upper = self._quantiles()
        middle = [t for t in live if t not in lower and t not in upper]
        for trial in [*upper, *middle, *lower]:
            self._states[trial.trial_id].last_perturbation_time = time
            self._checkpoint_or_exploit(trial, tune_controller, upper, lower)
        latest = max(self._time_of(trial) for trial in live)
        self._next_perturbation_sync = max(
            self._next_perturbation_sync + self._perturbation_interval, latest
        )

    def _quantiles(self) -> tuple[list[Trial], list[Trial]]:
        """Find the worst and the best of the population; nobody if there are too few."""
        scored = [
            state
            for state in self._states.values()
            if not math.isnan(state.last_score) and not state.trial.is_finished()
        ]
        if len(scored) <= 1:
            return [], []
        ranked = [state.trial for state in sorted(scored, key=lambda state: state.last_score)]
        count = min(math.ceil(len(ranked) * self._quantile_fraction), len(ranked) // 2)
        return ranked[:count], ranked[len(ranked) - count :]

    # -- changes -----------------------------------------------------------------------------

    def _checkpoint_or_exploit(
        self, trial: Trial, tune_controller: TuneController, upper: list[Trial], lower: list[Trial]
    ) -> None:
        if trial in upper:
            if trial.status != PAUSED:
                tune_controller.save_trial(trial)
            self._num_checkpoints += 1
        if trial in lower:
            self._exploit(tune_controller, trial, random.choice(upper))

    def _exploit(self, tune_controller: TuneController, trial: Trial, source: Trial) -> None:
        """Go on from the source's checkpoint with a changed copy of its configuration."""
        state, source_state = self._states[trial.trial_id], self._states[source.trial_id]
        kept = source.latest_checkpoint_result  # an earlier one may be deleted by now
        if kept is None:
            notices.once(
                f"PBT without checkpoints, {id(self)}",
                f"PBT cannot let trial {trial.trial_id} go on from the better {source.trial_id}, "
                "which has no checkpoint: without checkpoints nothing is perturbed. Give them to "
                "report(), with the parameters in them",
            )
            return
        config, operations = self._get_new_config(trial, source)
        logger.info(
            "PBT: trial %s (score %s) goes on from %s (score %s) with %s: %s",
            trial.trial_id,
            state.last_score,
            source.trial_id,
            source_state.last_score,
            mutated_part(config, self._hyperparam_mutations),
            operations,
        )
        if self._log_config:
            self._log_change(state, source_state, config)
        if trial.status != PAUSED:
            tune_controller.pause_trial(trial, should_checkpoint=False)
        tag = perturbed_tag(state.original_tag, config, self._hyperparam_mutations)
        trial.set_experiment_tag(tag)
        trial.set_config(config)
        tune_controller.adopt_checkpoint(trial, kept.checkpoint, kept.metrics)
        self._num_perturbations += 1
        state.last_perturbation_time = source_state.last_perturbation_time
        state.last_train_time = source_state.last_train_time

    def _get_new_config(
        self, trial: Trial, trial_to_clone: Trial
    ) -> tuple[Config, dict[str, str]]:
        return explore(
            trial_to_clone.config,
            self._hyperparam_mutations,
            self._resample_probability,
            self._perturbation_factors,
            self._custom_explore_fn,
        )

    def _log_change(self, state: _State, source: _State, config: Config) -> None:
        """Write down the policy of a trial: whom it copied, when, and the configurations."""
        trial, other = state.trial, source.trial
        row = [
            trial.experiment_tag,
            other.experiment_tag,
            trial.last_result.get("training_iteration", 0),
            other.last_result.get("training_iteration", 0),
            other.config,
            config,
        ]
        folder = trial.local_experiment_path
        own = os.path.join(folder, f"pbt_policy_{trial.trial_id}.txt")
        source_policy = os.path.join(folder, f"pbt_policy_{other.trial_id}.txt")
        line = to_json({"row": row})
        text = json.dumps(json.loads(line)["row"])
        append_whole(os.path.join(folder, "pbt_global.txt"), f"{text}\n".encode())
        past = ""
        if os.path.exists(source_policy):
            with open(source_policy) as file:
                past = file.read()
        write_atomically(own, f"{past}{text}\n".encode())  # its past is now that of the source

    # -- order -------------------------------------------------------------------------------

    def choose_trial_to_run(self, tune_controller: TuneController) -> Trial | None:
        """Return the trial that is least far, so that all come along; None if none waits.

        Args:
            tune_controller: The state of the experiment, which has `get_trials()`.
        """
        live = tune_controller.get_live_trials()
        waiting = [t for t in live if t.status in (PENDING, PAUSED) and not t.is_saving]
        if self._synch:
            waiting = [t for t in waiting if self._time_of(t) < self._next_perturbation_sync]
        return min(waiting, key=self._time_of, default=None)

    def reset_stats(self) -> None:
        """Count perturbations and checkpoints from 0 again."""
        self._num_perturbations = 0
        self._num_checkpoints = 0

    def last_scores(self, trials: list[Trial]) -> list[float]:
        """Return the last score of each trial that is not finished.

        Args:
            trials: The trials.
        """
        states = (self._states[t.trial_id] for t in trials if not t.is_finished())
        return [state.last_score for state in states if not math.isnan(state.last_score)]

    def debug_string(self) -> str:
        return (
            f"PopulationBasedTraining: {self._num_checkpoints} checkpoints, "
            f"{self._num_perturbations} perturbs"
        )


class _State:
    """What is known of a trial; more is better in scores."""

    def __init__(self, trial: Trial) -> None:
        self.trial = trial
        self.original_tag = trial.experiment_tag.partition("@perturbed")[0]
        self.last_score = math.nan
        self.last_perturbation_time = 0.0
        self.last_train_time = 0.0
        self.last_result: ResultRow = {}


def _others_wait(tune_controller: TuneController) -> bool:
    return any(t.status in (PENDING, PAUSED) for t in tune_controller.get_live_trials())


def _check_mutations(mutations: dict[str, object], custom: object) -> None:
    if not mutations and custom is None:
        raise TuneError("PBT needs `hyperparam_mutations` or `custom_explore_fn`; got neither")
    for name, space in _flat(mutations):
        if isinstance(space, Function):
            raise ValueError(
                f"hyperparam_mutations cannot use sample_from ({name!r}): give a function without "
                f"arguments, or tune.uniform and the like"
            )
        check_space(name, space)


def _flat(mutations: Mapping[str, object], above: str = "") -> Iterator[tuple[str, object]]:
    """Yield all spaces, also those inside of others, by names as "layer/size"."""
    for name, space in mutations.items():
        if isinstance(space, Mapping):
            yield from _flat(space, f"{above}{name}/")
        else:
            yield f"{above}{name}", space
