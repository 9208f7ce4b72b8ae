"""Grids and random draws: the search that is used when no other is given."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from skate._run.types import Config, ResultRow
from skate.tune.search._samplers import Rng
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.search.searcher import plain_points
from skate.tune.search.variant_generator import (
    count_variants,
    flatten_resolved_vars,
    format_vars,
    parse_spec_vars,
    preset_variants,
    variants_of,
)

if TYPE_CHECKING:
    from skate.tune.experiment.experiment import Experiment
    from skate.tune.experiment.trial import Trial
    from skate.tune.search._files import State


def _new_prefix() -> str:
    """Make what the ids of one search begin with."""
    return f"{os.environ.get('_TEST_TUNE_TRIAL_UUID') or uuid.uuid4().hex[:5]}_"


class BasicVariantGenerator(SearchAlgorithm):
    """Try every combination of the grids, `num_samples` times, with fresh draws of the domains.

    Args:
        points_to_evaluate: Configurations, or parts of them, that replace the first samples.
        max_concurrent: How many trials at a time; 0 is without limit.
        constant_grid_search: Whether to draw once per sample, and keep these values for all
            combinations.
        random_state: A seed or a NumPy generator, with which the same configurations come again;
            without it, NumPy's global generator is used.
    """

    CKPT_FILE_TMPL = "basic-variant-state-{}.json"

    def __init__(
        self,
        points_to_evaluate: list[Config] | None = None,
        max_concurrent: int = 0,
        constant_grid_search: bool = False,
        random_state: object = None,
    ) -> None:
        self._points_to_evaluate = plain_points(points_to_evaluate)
        self.max_concurrent = max_concurrent
        self._constant_grid_search = constant_grid_search
        self._rng = Rng(random_state)
        self._uuid_prefix = _new_prefix()
        self._total_samples = 0
        self._made: list[int] = []  # of each experiment
        self._number = 0  # of the next trial
        self._experiments: list[Experiment] = []
        self._trials: Iterator[Trial] | None = None
        self._live_trials: set[str] = set()

    @property
    def total_samples(self) -> int:
        return self._total_samples

    def add_configurations(self, experiments: object) -> None:
        from skate.tune.experiment.experiment import as_experiments

        if self._finished or self._trials is not None:
            self._begin_anew()
        for experiment in as_experiments(experiments):
            self._experiments.append(experiment)
            self._total_samples += count_variants(experiment.spec, self._points_to_evaluate)

    def _begin_anew(self) -> None:
        """Reset everything, for another search with the same generator."""
        self._experiments = []
        self._trials = None
        self._live_trials = set()
        self._total_samples = self._number = 0
        self._made = []
        self._uuid_prefix = _new_prefix()
        self._finished = False

    def next_trial(self) -> Trial | None:
        if self.is_finished():
            return None
        if 0 < self.max_concurrent <= len(self._live_trials):
            return None
        if self._trials is None:
            self._trials = self._generate()
        trial = next(self._trials, None)
        if trial is None:
            self.set_finished()
        else:
            self._live_trials.add(trial.trial_id)
        return trial

    def _generate(self) -> Iterator[Trial]:
        missing = len(self._experiments) - len(self._made)
        self._made += [0] * missing
        for place, experiment in enumerate(self._experiments):
            # those that were made are drawn once more, for the draws that come after them
            for index, (resolved, spec) in enumerate(self._variants(experiment.spec)):
                if index >= self._made[place]:
                    self._made[place] += 1
                    yield self._next(experiment, resolved, spec)

    def _variants(self, spec: Config) -> Iterator[Any]:
        left = spec.get("num_samples", 1)
        options = (self._constant_grid_search, self._rng)
        for point in self._points_to_evaluate:
            yield from preset_variants(spec, point, *options)
            left -= 1
        leaves = parse_spec_vars(spec)
        while left > 0:
            yield from variants_of(spec, leaves, *options)
            left -= 1

    def _next(self, experiment: Experiment, resolved: dict[Any, Any], spec: Config) -> Trial:
        number = self._number
        self._number += 1
        tag = f"{number}_{format_vars(resolved)}" if resolved else str(number)
        return experiment.make_trial(
            spec["config"],
            evaluated_params=flatten_resolved_vars(resolved),
            trial_id=f"{self._uuid_prefix}{number:05d}",
            experiment_tag=tag,
        )

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        self._live_trials.discard(trial_id)

    # -- going on ----------------------------------------------------------------------------

    def get_state(self) -> State:
        """Return how far it is in each experiment, whose variants come again in the same order."""
        return {
            "made": list(self._made),
            "number": self._number,
            "uuid_prefix": self._uuid_prefix,
        }

    def set_state(self, state: State) -> None:
        """Go on after the trials that were made.

        Args:
            state: What `get_state` has returned: how many trials of each experiment were
                `made`, the `number` of the next, and what ids begin with (`uuid_prefix`).
        """
        self._made = list(state["made"])
        self._number = state["number"]
        self._uuid_prefix = state["uuid_prefix"]
        self._trials = None
        self._finished = False

    def has_checkpoint(self, dirpath: str) -> bool:
        from skate.tune.search.searcher import has_state

        return has_state(dirpath, self.CKPT_FILE_TMPL.format("*"))

    def save_to_dir(self, dirpath: str, session_str: str = "default", **kwargs: object) -> None:
        import json

        from skate.tune.search._files import write_atomically

        path = os.path.join(dirpath, self.CKPT_FILE_TMPL.format(session_str))
        write_atomically(path, json.dumps(self.get_state()).encode())

    def restore_from_dir(self, dirpath: str) -> None:
        import json

        from skate.tune.search._files import newest

        path = newest(dirpath, self.CKPT_FILE_TMPL.format("*"))
        if path is None:
            raise RuntimeError(f"there is no state of a {type(self).__name__} in {dirpath}")
        self.set_state(json.loads(path.read_text()))
