"""Search with HyperOpt's tree of Parzen estimators, conditional spaces included."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from skate._core.optional_imports import try_import
from skate._run.types import Config, ResultRow
from skate.tune.search._samplers import LogUniform, Normal, Quantized, Uniform
from skate.tune.search.sample import Categorical, Domain, Float, Integer
from skate.tune.search.searcher import negated_if_max, plain_points
from skate.tune.search.space_searcher import SpaceSearcher
from skate.tune.search.variant_generator import (
    assign_value,
    copy_space,
    has_unresolved_values,
    parse_spec_vars,
)
from skate.tune.utils.util import flatten_dict


class HyperOptSearch(SpaceSearcher):
    """Let HyperOpt choose the configurations.

    Args:
        space: A dictionary with `hp.…` values; by default the domains of the tuner's space are
            translated, those inside of choices too.
        metric: The metric that is compared; by default that of the TuneConfig.
        mode: "min" or "max": which values of it are better; by default that of the TuneConfig.
        points_to_evaluate: Configurations to try first.
        n_initial_points: How many configurations are random, before any is chosen.
        random_state_seed: The seed.
        gamma: The share of the trials that count as good, for the algorithm TPE.
    """

    def __init__(
        self,
        space: Config | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        n_initial_points: int = 20,
        random_state_seed: int | None = None,
        gamma: float = 0.25,
    ) -> None:
        tpe = try_import("hyperopt", "hyperopt").tpe
        super().__init__(metric=metric, mode=mode)
        self.algo: Any = tpe.suggest
        if n_initial_points is not None:
            self.algo = partial(self.algo, n_startup_jobs=n_initial_points)
        if gamma is not None:
            self.algo = partial(self.algo, gamma=gamma)
        self._seed = random_state_seed
        self.rstate: np.random.RandomState = np.random.RandomState(random_state_seed)
        self.domain: Any = None
        self._points = plain_points(points_to_evaluate)
        self._points_left = 0
        self._live: dict[str, int] = {}
        self._hpopt_trials: Any = None
        self._begin(space)

    def set_seed(self, seed: int) -> None:
        if self._seed is None:
            self._seed = seed
            self.rstate = np.random.RandomState(seed % 2**32)

    def _translated(self, space: Mapping[str, Any]) -> dict[str, Any]:
        return self.convert_search_space(space)

    def _setup(self, space: Config) -> None:
        hyperopt = _hyperopt()
        self._points_left = len(self._points)
        if self._points:
            # HyperOpt takes the last of them first
            points = [_indexed(point, space) for point in reversed(self._points)]
            self._hpopt_trials = _hyperopt("fmin").generate_trials_to_calculate(points)
            self._hpopt_trials.refresh()
        else:
            self._hpopt_trials = hyperopt.Trials()
        self.domain = hyperopt.Domain(_identity, space)

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        self._check_ready()
        trial = self._given_trial() if self._points_left else self._new_trial()
        self._live[trial_id] = trial["tid"]
        return self._config_of(trial)

    def _given_trial(self) -> Any:
        self._points_left -= 1
        return self._hpopt_trials.trials[self._points_left]

    def _new_trial(self) -> Any:
        ids = self._hpopt_trials.new_trial_ids(1)
        self._hpopt_trials.refresh()
        seed = self.rstate.randint(2**31 - 1)
        new = self.algo(ids, self.domain, self._hpopt_trials, seed)
        self._hpopt_trials.insert_trial_docs(new)
        self._hpopt_trials.refresh()
        return new[0]

    def _config_of(self, trial: Any) -> dict[str, Any]:
        base, pyll = _hyperopt("base"), _hyperopt("pyll")
        chosen = flatten_dict(base.spec_from_misc(trial["misc"]), flatten_list=True)
        memo = self.domain.memo_from_config(chosen)
        try:
            config = pyll.rec_eval(self.domain.expr, memo=memo, print_node_on_error=False)
        except (AssertionError, TypeError) as error:
            raise ValueError(
                f"HyperOpt cannot make a configuration of {chosen}: a point to evaluate must "
                f"have a value for every parameter of the space {list(self._space)}"
            ) from error
        result: ResultRow = copy.deepcopy(_plain(config))
        return result

    def _learn_point(self, parameters: Config, value: float) -> None:
        found = _indexed(dict(parameters), self._space)
        missing = [name for name in self.domain.params if name not in found]
        if missing:
            raise ValueError(f"the point {dict(parameters)} has no {missing}")
        point = {name: found[name] for name in self.domain.params}
        made = _hyperopt("fmin").generate_trials_to_calculate([point])
        (trial,) = made._dynamic_trials
        (number,) = self._hpopt_trials.new_trial_ids(1)
        trial["tid"] = trial["misc"]["tid"] = number
        trial["misc"]["idxs"] = {name: [number] for name in point}
        trial["state"] = _hyperopt("base").JOB_STATE_DONE
        loss = negated_if_max(value, str(self._mode))
        trial["result"] = {"loss": loss, "status": "ok"}
        self._hpopt_trials.insert_trial_docs([trial])
        self._hpopt_trials.refresh()

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        base, utils = _hyperopt("base"), _hyperopt("utils")
        trial = self._live_trial(trial_id)
        if trial is None:
            return
        del self._live[trial_id]
        trial["refresh_time"] = utils.coarse_utcnow()
        if error or not result or self._metric not in result:
            trial["state"] = base.JOB_STATE_ERROR
            trial["misc"]["error"] = ("TuneError", "the trial failed")
        else:
            loss = negated_if_max(float(result[self._metric]), self._mode)
            trial["state"] = base.JOB_STATE_DONE
            trial["result"] = {"loss": loss, "status": "ok"}
        self._hpopt_trials.refresh()

    def _live_trial(self, trial_id: str) -> Any:
        tid = self._live.get(trial_id)
        if tid is None:
            return None
        return next((t for t in self._hpopt_trials.trials if t["tid"] == tid), None)

    @staticmethod
    def convert_search_space(spec: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
        """Turn domains into HyperOpt's expressions; what is no domain stays.

        Args:
            spec: A space with domains.
            prefix: What the names of parameters begin with.

        Raises:
            ValueError: If a domain has no counterpart, as grids.
        """
        space: Config = copy_space(spec)
        _, domains, grids = parse_spec_vars(space)
        if grids:
            raise ValueError(
                f"HyperOpt cannot walk over grids ({['/'.join(map(str, p)) for p, _ in grids]}): "
                f"use choice() in place of grid_search()"
            )
        if not domains:
            return {}
        for path, domain in domains:
            name = "/".join(str(part) for part in ((prefix, *path) if prefix else path))
            assign_value(space, path, _expression(name, domain))
        return space


def _hyperopt(part: str = "") -> Any:
    return try_import(f"hyperopt.{part}" if part else "hyperopt", "hyperopt")


def _identity(space: Any) -> Any:
    return space


def _plain(value: Any) -> Any:
    """Copy nested dictionaries; all else stays as it is."""
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in value.items()}
    return value


def _expression(name: str, domain: Domain) -> Any:
    hp = _hyperopt("hp")
    sampler = domain.get_sampler()
    q = None
    if isinstance(sampler, Quantized):
        q, sampler = sampler.q, sampler.sampler
    if isinstance(domain, Categorical) and isinstance(sampler, Uniform):
        options = [_option(f"{name}/{i}", option) for i, option in enumerate(domain.categories)]
        return hp.choice(name, options)
    if isinstance(domain, Float):
        made = _float(name, domain, sampler, q)
    elif isinstance(domain, Integer):
        made = _integer(name, domain, sampler, q)
    else:
        made = None
    if made is None:
        raise ValueError(
            f"HyperOpt cannot draw {name!r}, a {type(domain).__name__} with the sampler {sampler}"
        )
    return made


def _float(name: str, domain: Float, sampler: Any, q: float | None) -> Any:
    hp = _hyperopt("hp")
    if isinstance(sampler, Normal):
        return (
            hp.qnormal(name, sampler.mean, sampler.sd, q)
            if q
            else hp.normal(name, sampler.mean, sampler.sd)
        )
    if isinstance(sampler, LogUniform):
        low, high = np.log(domain.lower), np.log(domain.upper)
        return hp.qloguniform(name, low, high, q) if q else hp.loguniform(name, low, high)
    if isinstance(sampler, Uniform):
        low, high = domain.lower, domain.upper
        return hp.quniform(name, low, high, q) if q else hp.uniform(name, low, high)
    return None


def _integer(name: str, domain: Integer, sampler: Any, q: float | None) -> Any:
    hp, scope = _hyperopt("hp"), _hyperopt("pyll").scope
    high = domain.upper if q and q > 1 else domain.upper - 1
    if isinstance(sampler, LogUniform):
        low_log, high_log = np.log(domain.lower), np.log(high)
        return scope.int(hp.qloguniform(name, low_log, high_log, q or 1.0))
    if isinstance(sampler, Uniform):
        if q:
            return scope.int(hp.quniform(name, domain.lower, high, q))
        return hp.uniformint(name, domain.lower, high)
    return None


def _option(place: str, option: Any) -> Any:
    """Translate one option of a choice, which may be a space of its own.

    Its labels begin with its place: other options may have the same keys.
    """
    if isinstance(option, dict):
        return HyperOptSearch.convert_search_space(option, prefix=place) or option
    if isinstance(option, list) and has_unresolved_values(option):
        return [_option(f"{place}/{i}", inner) for i, inner in enumerate(option)]
    if isinstance(option, Domain):
        return _expression(place, option)
    return option


def _indexed(point: dict[str, Any], space: Config) -> dict[str, Any]:
    """Return the point as HyperOpt wants it: options of choices by their position."""
    made: dict[str, Any] = {}
    for key, value in point.items():
        there = space.get(key)
        if isinstance(value, dict) and isinstance(there, dict):
            made.update({f"{key}/{k}": v for k, v in _indexed(value, there).items()})
        elif getattr(there, "name", None) == "switch":
            made[key] = _position(key, value, there)
        else:
            made[key] = value
    return made


def _position(key: str, value: Any, choice: Any) -> int:
    """Find where the option is; HyperOpt's own way is to give the position."""
    options = [arg.obj for arg in choice.pos_args[1:] if arg.name == "literal"]
    if value in options:
        return options.index(value)
    if isinstance(value, int) and 0 <= value < len(choice.pos_args) - 1:
        return value
    raise ValueError(f"the point has {key}={value!r}, which is none of {options}")
