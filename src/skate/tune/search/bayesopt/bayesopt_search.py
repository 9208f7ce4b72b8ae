"""Search with Gaussian processes, by the package bayesian-optimization."""

from __future__ import annotations

import logging
import math
from collections import Counter
from collections.abc import Mapping
from typing import Any

from skate._core.optional_imports import try_import
from skate._run.types import Config, MetricsLike, ResultRow
from skate.tune.search.sample import Float
from skate.tune.search.searcher import Searcher, plain_points
from skate.tune.search.space_searcher import SpaceSearcher
from skate.tune.search.variant_generator import has_unresolved_values, parse_spec_vars
from skate.tune.utils.util import flatten_dict, unflatten_dict, unflattened_lookup

logger: logging.Logger = logging.getLogger(__name__)


class BayesOptSearch(SpaceSearcher):
    """Let Gaussian processes choose the configurations; all parameters are real numbers.

    Args:
        space: The smallest and the largest value of each parameter, `{"lr": (0.001, 0.1)}`; by
            default the domains of the tuner's space are translated.
        metric: The metric that is compared; by default that of the TuneConfig.
        mode: "min" or "max": which values of it are better; by default that of the TuneConfig.
        points_to_evaluate: Configurations to try first.
        utility_kwargs: The acquisition function: `{"kind": "ucb", "kappa": 2.576}`, or the kinds
            "ei" and "poi" with `xi`.
        random_state: The seed.
        random_search_steps: How many configurations are random, before any is chosen.
        verbose: How much the package `bayes_opt` prints.
        patience: How often a configuration may be suggested again before the search ends.
        skip_duplicate: Whether a configuration that was tried is not run again.
        analysis: An earlier search to learn from, as `tune.run` returns it.
        repeat_float_precision: The digits after which two configurations count as the same.

    Raises:
        ValueError: If `patience` is not above 0, or `repeat_float_precision` is below 0.
    """

    def __init__(
        self,
        space: Config | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        utility_kwargs: dict[str, Any] | None = None,
        random_state: int = 42,
        random_search_steps: int = 10,
        verbose: int = 0,
        patience: int = 5,
        skip_duplicate: bool = True,
        analysis: Any = None,
        repeat_float_precision: int = 5,
    ) -> None:
        try_import("bayes_opt", "bayesopt")
        super().__init__(metric=metric, mode=mode)
        if patience <= 0:
            raise ValueError(f"patience takes a number above 0; got {patience}")
        if isinstance(repeat_float_precision, bool) or not isinstance(repeat_float_precision, int):
            raise TypeError(
                f"repeat_float_precision takes a number; got {repeat_float_precision!r}"
            )
        if repeat_float_precision < 0:
            raise ValueError(f"repeat_float_precision starts at 0; got {repeat_float_precision}")
        self._utility = _acquisition(utility_kwargs or {"kind": "ucb", "kappa": 2.576})
        self._patience = patience
        self._skip_duplicate = skip_duplicate
        self.repeat_float_precision = repeat_float_precision
        self.random_search_trials = random_search_steps
        self._random_state = random_state
        self._verbose = verbose
        self._analysis = analysis
        self._points_to_evaluate = plain_points(points_to_evaluate)
        self._suggested: Counter[Any] = Counter()
        self._live: dict[str, dict[str, float]] = {}
        self._first: list[tuple[dict[str, float], dict[str, Any]]] = []
        self._random_made = 0
        self.optimizer: Any = None
        if space and has_unresolved_values(space):
            joined = self.convert_search_space(space, join=True)
            space = {name: bounds for name, bounds in joined.items() if _is_pair(bounds)}
        self._begin(space)

    def _translated(self, space: Mapping[str, Any]) -> dict[str, Any]:
        return self.convert_search_space(space)

    def _setup(self, space: Config) -> None:
        import bayes_opt

        self.optimizer = bayes_opt.BayesianOptimization(
            f=None,
            pbounds=space,
            acquisition_function=self._utility,
            random_state=self._random_state,
            verbose=self._verbose,
            allow_duplicate_points=True,
        )
        if self._analysis is not None:
            self.register_analysis(self._analysis)

    def suggest(self, trial_id: str) -> Config | str | None:
        self._check_ready()
        given = bool(self._points_to_evaluate)
        if given:
            config = flatten_dict(self._points_to_evaluate.pop(0), flatten_list=True)
        elif not self._may_suggest():
            return None
        else:
            config = {name: float(value) for name, value in self.optimizer.suggest().items()}
        key = tuple(sorted((k, round(v, self.repeat_float_precision)) for k, v in config.items()))
        self._suggested[key] += 1
        if self._suggested[key] > self._patience:
            return Searcher.FINISHED
        if self._suggested[key] > 1 and self._skip_duplicate:
            return None
        if self._still_random():
            self._random_made += 1
        self._live[trial_id] = config
        return unflatten_dict(config)

    def _still_random(self) -> bool:
        return len(self._first) < self.random_search_trials

    def _may_suggest(self) -> bool:
        """Return whether a point may be made now: once the random ones are, results come first."""
        return not self._still_random() or self._random_made < self.random_search_trials

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        params = self._live.pop(trial_id, None)
        if params is None:
            return
        if error or not result:
            if self._still_random():
                self._random_made -= 1  # it will bring no result to wait for
            return
        if not self._still_random():
            self._register(params, result)
            return
        self._first.append((params, result))
        if not self._still_random():
            for one, found in self._first:
                self._register(one, found)

    def _register(self, params: Mapping[str, Any], result: MetricsLike) -> None:
        value = float(result[self._metric])
        if math.isfinite(value):
            self.optimizer.register(dict(params), value if self._mode == "max" else -value)

    def register_analysis(self, analysis: Any) -> None:
        """Learn from the trials of another search.

        Args:
            analysis: What `tune.run` has returned for it.
        """
        names = set(self.optimizer.space.keys)
        for trial in analysis.trials:
            if self._metric in trial.last_result:
                found = {n: unflattened_lookup(n, trial.config) for n in names}
                self._register(found, trial.last_result)

    def _learn_point(self, parameters: Config, value: float) -> None:
        found = {n: unflattened_lookup(n, parameters) for n in self.optimizer.space.keys}
        self._register(found, {self._metric: value})

    @staticmethod
    def convert_search_space(spec: Mapping[str, Any], join: bool = False) -> dict[str, Any]:
        """Return bounds by names as "layer/size".

        Args:
            spec: A space with domains.
            join: Whether constants are returned, too.

        Raises:
            ValueError: If a domain is no range of real numbers.
        """
        _, domains, grids = parse_spec_vars(spec)
        if grids:
            raise ValueError("BayesOpt cannot walk over grids: it takes uniform() ranges only")
        flatten_dict(spec, prevent_delimiter=True)
        bounds = {"/".join(map(str, path)): _bounds(path, domain) for path, domain in domains}
        return {**flatten_dict(spec), **bounds} if join else bounds


def _is_pair(value: Any) -> bool:
    """Return whether a value is bounds; what else a space has stays as it is."""
    return isinstance(value, (list, tuple)) and len(value) == 2


def _bounds(path: tuple[Any, ...], domain: Any) -> tuple[float, float]:
    name = "/".join(map(str, path))
    if not isinstance(domain, Float) or not math.isfinite(domain.lower):
        raise ValueError(
            f"BayesOpt takes floats between two bounds; {name!r} is a {type(domain).__name__}"
        )
    if str(domain.get_sampler()) != "Uniform":
        logger.warning("BayesOpt draws %r evenly between its bounds", name)
    return domain.lower, domain.upper


def _acquisition(options: dict[str, Any]) -> Any:
    from bayes_opt import acquisition

    kind = options.get("kind", "ucb")
    xi = options.get("xi", 0.0)
    if kind == "ucb":
        return acquisition.UpperConfidenceBound(kappa=options.get("kappa", 2.576))
    if kind == "ei":
        return acquisition.ExpectedImprovement(xi=xi)
    if kind == "poi":
        return acquisition.ProbabilityOfImprovement(xi=xi)
    raise ValueError(f"utility_kwargs takes kind 'ucb', 'ei' or 'poi'; got {kind!r}")
