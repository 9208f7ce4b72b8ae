"""Search without gradients: evolution strategies, swarms and more, by the package Nevergrad."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skate._core.optional_imports import try_import
from skate._run.types import Config, ResultRow
from skate.tune.search._samplers import LogUniform, Normal, Quantized
from skate.tune.search.sample import Categorical, Domain, Float, Integer
from skate.tune.search.searcher import negated_if_max, plain_points
from skate.tune.search.space_searcher import SpaceSearcher
from skate.tune.search.variant_generator import parse_spec_vars
from skate.tune.utils.util import flatten_dict, unflatten_dict, unflattened_lookup


class NevergradSearch(SpaceSearcher):
    """Let an optimizer of Nevergrad choose the configurations.

    Args:
        optimizer: One of `nevergrad.optimizers`: a class, a configured one, or an instance; by
            default OnePlusOne.
        optimizer_kwargs: What a class is made with.
        space: A `nevergrad.p.Dict`, or domains; by default those of the tuner's space. For an
            instance without names: the names of its values.
        metric: The metric that is compared; by default that of the TuneConfig.
        mode: "min" or "max": which values of it are better; by default that of the TuneConfig.
        points_to_evaluate: Configurations to try first.
    """

    def __init__(
        self,
        optimizer: Any = None,
        optimizer_kwargs: dict[str, Any] | None = None,
        space: Any = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
    ) -> None:
        ng = _nevergrad()
        super().__init__(metric=metric, mode=mode)
        self._points_to_evaluate = plain_points(points_to_evaluate)
        self._options = dict(optimizer_kwargs or {})
        self._factory = ng.optimizers.OnePlusOne if optimizer is None else optimizer
        self._names: list[str] | None = None
        self._steps: dict[str, float] = {}  # of parameters that are rounded
        self._live: dict[str, Any] = {}
        self._nevergrad_opt: Any = None
        if isinstance(optimizer, ng.optimizers.base.Optimizer):
            self._names, space = _names_of(space, self._options), optimizer.parametrization
        elif not callable(self._factory):
            raise ValueError(
                f"optimizer takes one of nevergrad.optimizers, or an instance; got {optimizer!r}"
            )
        # in a tuple, because Nevergrad's parameters refuse to say whether they are true
        self._begin((space,) if isinstance(space, ng.p.Parameter) else space)

    def _setup(self, space: tuple[Any]) -> None:
        ng = _nevergrad()
        made = isinstance(self._factory, ng.optimizers.base.Optimizer)
        opt = self._factory if made else self._factory(*space, **self._options)
        if self._names is not None and opt.dimension != len(self._names):
            raise ValueError(
                f"space has {len(self._names)} names, {self._names}, for an optimizer of "
                f"{opt.dimension} values"
            )
        for point in reversed(self._points_to_evaluate):  # the last one that is said is the first
            opt.suggest(flatten_dict(point, flatten_list=True))
        self._nevergrad_opt = opt

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        self._check_ready()
        candidate = self._live[trial_id] = self._nevergrad_opt.ask()
        return unflatten_dict(self._values_of(candidate))

    def _values_of(self, candidate: Any) -> dict[str, Any]:
        if self._names is not None:
            return dict(zip(self._names, map(float, candidate.args[0]), strict=True))
        values = dict(candidate.kwargs or candidate.value)
        rounded = {name: round(values[name] / step) * step for name, step in self._steps.items()}
        return {**values, **rounded}

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        candidate = self._live.pop(trial_id, None)
        if candidate is not None and result and not error:
            self._note(candidate, float(result[self._metric]))

    def _note(self, candidate: Any, value: float) -> None:
        if math.isfinite(value):
            self._nevergrad_opt.tell(candidate, negated_if_max(value, str(self._mode)))

    def _learn_point(self, parameters: Config, value: float) -> None:
        space = self._nevergrad_opt.parametrization
        found = {name: unflattened_lookup(name, parameters) for name in space.value}
        self._note(space.spawn_child(new_value=found), value)

    def _translated(self, space: Mapping[str, Any]) -> tuple[Any] | None:
        _, domains, grids = parse_spec_vars(space)
        for path, domain in domains:
            sampler = domain.get_sampler()
            if isinstance(sampler, Quantized):
                self._steps["/".join(map(str, path))] = sampler.q
        return (self.convert_search_space(space),) if domains or grids else None

    @staticmethod
    def convert_search_space(spec: Mapping[str, Any]) -> Any:
        """Make a `nevergrad.p.Dict` by names as "layer/size".

        Args:
            spec: A space with domains.

        Raises:
            ValueError: If a domain has no counterpart, as grids.
        """
        ng = _nevergrad()
        _, domains, grids = parse_spec_vars(spec)
        if grids:
            raise ValueError("Nevergrad cannot walk over grids: use choice() for grid_search()")
        flatten_dict(spec, prevent_delimiter=True)
        found = {"/".join(map(str, path)): _parameter(path, domain) for path, domain in domains}
        return ng.p.Dict(**found)


def _nevergrad() -> Any:
    try:
        return try_import("nevergrad", "nevergrad")
    except ImportError as error:
        if "bayes_opt" not in str(error):
            raise
        raise ImportError(
            "Nevergrad needs bayesian-optimization 1.4, and another one is installed (which "
            "BayesOptSearch needs): pip install bayesian-optimization==1.4.0"
        ) from error


def _names_of(space: Any, options: dict[str, Any]) -> list[str] | None:
    if space is not None and not isinstance(space, list):
        raise ValueError(f"an optimizer that is made has its space; got space={space!r} as well")
    if options:
        raise ValueError(f"an optimizer that is made takes no optimizer_kwargs; got {options}")
    return space


def _parameter(path: tuple[Any, ...], domain: Domain) -> Any:
    ng = _nevergrad()
    sampler = domain.get_sampler()
    step = None
    if isinstance(sampler, Quantized):
        step, sampler = sampler.q, sampler.sampler
    if isinstance(domain, Categorical):
        return ng.p.Choice(domain.categories)
    if not isinstance(domain, (Float, Integer)):
        raise ValueError(
            f"Nevergrad takes numbers and choices; {'/'.join(map(str, path))!r} is a "
            f"{type(domain).__name__}"
        )
    if isinstance(sampler, Normal):
        return ng.p.Scalar(init=sampler.mean).set_mutation(sigma=sampler.sd)
    whole = isinstance(domain, Integer)
    high = domain.upper - 1 if whole and not (step and step > 1) else domain.upper
    kind = ng.p.Log if isinstance(sampler, LogUniform) else ng.p.Scalar
    made = kind(lower=domain.lower, upper=high)
    return made.set_integer_casting() if whole else made
