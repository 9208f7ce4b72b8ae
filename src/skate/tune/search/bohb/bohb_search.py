"""Search with BOHB's model, by the package hpbandster."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from skate._core.optional_imports import try_import
from skate._run.types import Config, ResultRow
from skate.tune.search._samplers import LogUniform, Quantized
from skate.tune.search.sample import Categorical, Domain, Float, Integer
from skate.tune.search.searcher import negated_if_max, plain_points
from skate.tune.search.space_searcher import SpaceSearcher
from skate.tune.search.variant_generator import parse_spec_vars
from skate.tune.utils.util import flatten_dict, unflatten_list_dict


class _Job:
    """One result, in the form that BOHB's model learns from."""

    def __init__(self, loss: float, budget: float, config: Config) -> None:
        self.result = {"loss": loss}
        self.kwargs = {"budget": budget, "config": copy.deepcopy(config)}
        self.exception = None


class TuneBOHB(SpaceSearcher):
    """Let BOHB's model choose the configurations; use it with HyperBandForBOHB.

    Args:
        space: A ConfigSpace; by default the domains of the tuner's space are translated.
        bohb_config: Settings of hpbandster's `BOHB`.
        metric: The metric that is compared; by default that of the TuneConfig.
        mode: "min" or "max": which values of it are better; by default that of the TuneConfig.
        points_to_evaluate: Configurations to try first.
        seed: The seed of the space.
        max_concurrent: How many trials run at a time; 0 for no limit.
    """

    def __init__(
        self,
        space: Any = None,
        bohb_config: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        seed: int | None = None,
        max_concurrent: int = 0,
    ) -> None:
        try_import("hpbandster", "bohb")
        super().__init__(metric=metric, mode=mode)
        self._bohb_config = bohb_config or {}
        self._seed = seed
        self._max_concurrent = max_concurrent
        self._points_to_evaluate = plain_points(points_to_evaluate)
        self.trial_to_params: dict[str, dict[str, Any]] = {}
        self.running: set[str] = set()
        self._learned: dict[str, float] = {}
        self.paused: set[str] = set()
        self.bohber: Any = None
        self._begin(space)

    def set_seed(self, seed: int) -> None:
        if self._seed is None:
            self._seed = seed
            if self._space is not None:
                self._space.seed(seed)

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._max_concurrent = max_concurrent
        return True

    def _translated(self, space: Mapping[str, Any]) -> Any:
        return self.convert_search_space(space)

    def _setup(self, space: Any) -> None:
        bohb = try_import("hpbandster.optimizers.config_generators.bohb", "bohb")
        if self._seed is not None:
            space.seed(self._seed)
        self.bohber = bohb.BOHB(space, **self._bohb_config)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        self._check_ready()
        if 0 < self._max_concurrent <= len(self.running):
            return None
        if self._points_to_evaluate:
            config = flatten_dict(self._points_to_evaluate.pop(0))
        else:
            chosen, _ = self.bohber.get_config(None)
            config = {name: _as_python(value) for name, value in chosen.items()}
        self.trial_to_params[trial_id] = copy.deepcopy(config)
        self.running.add(trial_id)
        result: ResultRow = unflatten_list_dict(config)
        return result

    def on_trial_result(self, trial_id: str, result: ResultRow) -> None:
        if trial_id not in self.paused:
            self.running.add(trial_id)
        self._learn(trial_id, result)

    def _learn(self, trial_id: str, result: ResultRow) -> None:
        """Learn from results at the end of a round, once each."""
        budget = result.get("hyperband_info", {}).get("budget")
        if budget is None or self._learned.get(trial_id) == budget:
            return
        self._learned[trial_id] = budget
        loss = negated_if_max(result[self._metric], self._mode)
        self.bohber.new_result(_Job(loss, budget, self.trial_to_params[trial_id]))

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        if result and not error and trial_id in self.trial_to_params:
            self._learn(trial_id, result)
        self.trial_to_params.pop(trial_id, None)
        self._learned.pop(trial_id, None)
        self.paused.discard(trial_id)
        self.running.discard(trial_id)

    def on_pause(self, trial_id: str) -> None:
        """Note that a trial is paused, and does not count as running.

        Args:
            trial_id: The trial.
        """
        self.paused.add(trial_id)
        self.running.discard(trial_id)

    def on_unpause(self, trial_id: str) -> None:
        """Note that a paused trial runs again.

        Args:
            trial_id: The trial.
        """
        self.paused.discard(trial_id)
        self.running.add(trial_id)

    @staticmethod
    def convert_search_space(spec: Mapping[str, Any]) -> Any:
        """Make a ConfigSpace of the domains.

        Args:
            spec: A space with domains.

        Raises:
            ValueError: If a domain has no counterpart, as grids.
        """
        space = try_import("ConfigSpace", "bohb").ConfigurationSpace()
        _, domains, grids = parse_spec_vars(spec)
        if grids:
            raise ValueError("BOHB cannot walk over grids: use choice() in place of grid_search()")
        flatten_dict(spec, prevent_delimiter=True)
        for path, domain in domains:
            parameter = _hyperparameter("/".join(map(str, path)), domain)
            space.add(parameter) if hasattr(space, "add") else space.add_hyperparameter(parameter)
        return space


def _as_python(value: Any) -> Any:
    """Return numbers and texts as such, not as NumPy's."""
    return value.item() if hasattr(value, "item") else value


def _hyperparameter(name: str, domain: Domain) -> Any:
    config_space = try_import("ConfigSpace", "bohb")
    sampler = domain.get_sampler()
    if isinstance(sampler, Quantized):
        raise ValueError(f"BOHB cannot round {name!r}; use the range without q, or choice()")
    log = isinstance(sampler, LogUniform)
    if isinstance(domain, Float):
        return config_space.UniformFloatHyperparameter(name, domain.lower, domain.upper, log=log)
    if isinstance(domain, Integer):
        return config_space.UniformIntegerHyperparameter(
            name, domain.lower, domain.upper - 1, log=log
        )
    if isinstance(domain, Categorical):
        return config_space.CategoricalHyperparameter(name, choices=domain.categories)
    raise ValueError(f"BOHB cannot draw {name!r}, a {type(domain).__name__}")
