"""Population-based bandits: PBT whose new configurations are chosen by a Gaussian process.

The process models how much the score grows per unit of time, given the time, the score before and
the parameters, with a kernel that forgets; the next configuration maximises the upper confidence
bound of the growth. See https://arxiv.org/abs/2002.02518.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from skate._core.optional_imports import try_import
from skate._run.types import Config, ResultRow
from skate.tune.error import TuneError
from skate.tune.schedulers.pbt import PopulationBasedTraining, _State

if TYPE_CHECKING:
    from sklearn.gaussian_process import GaussianProcessRegressor

    from skate._core.arrays import Array
    from skate.tune.experiment.trial import Trial

_MOST_POINTS = 200
_TRIES = 1000


class PB2(PopulationBasedTraining):
    """Change configurations by what a Gaussian process expects of them.

    All else is as with `PopulationBasedTraining`.

    Needs scikit-learn: the extra `pb2`.

    Args:
        time_attr: The reported metric that is the time.
        metric: The reported metric by which trials are compared; by default that of `TuneConfig`.
        mode: Whether a larger value is better, "max", or a smaller one, "min"; by default that of
            `TuneConfig`.
        perturbation_interval: Time between two rankings of a trial.
        hyperparam_bounds: The `[low, high]` of each parameter, nested as the configuration is.
        quantile_fraction: The part of the trials, from 0 to 0.5, that counts as bad, and as good.
        log_config: Whether changes are written to files.
        require_attrs: Whether a result without `time_attr` or the metric is an error.
        synch: Whether all trials wait for each other at every interval.
        custom_explore_fn: Is given the changed configuration, and returns the one to use.

    Raises:
        TuneError: If there are no bounds.
        ValueError: If bounds are no pair.
    """

    def __init__(
        self,
        time_attr: str = "time_total_s",
        metric: str | None = None,
        mode: str | None = None,
        perturbation_interval: float = 60.0,
        hyperparam_bounds: Config | None = None,
        quantile_fraction: float = 0.25,
        log_config: bool = True,
        require_attrs: bool = True,
        synch: bool = False,
        custom_explore_fn: Callable[[Config], Config] | None = None,
    ) -> None:
        try_import("sklearn", "pb2")
        bounds = hyperparam_bounds or {}
        if not bounds:
            raise TuneError("PB2 needs `hyperparam_bounds`, a dictionary of [low, high] pairs")
        self._bounds = _flat_bounds(bounds)
        super().__init__(
            time_attr=time_attr,
            metric=metric,
            mode=mode,
            perturbation_interval=perturbation_interval,
            hyperparam_mutations=_as_domains(bounds),
            quantile_fraction=quantile_fraction,
            resample_probability=0,
            custom_explore_fn=custom_explore_fn,
            log_config=log_config,
            require_attrs=require_attrs,
            synch=synch,
        )
        self._rows: list[tuple[str, tuple[float, ...], float, float]] = []

    def _note(self, state: _State, time: float, result: ResultRow, trial: Trial) -> None:
        super()._note(state, time, result, trial)
        config = result.get("config", trial.config)  # the one that it had then
        values = tuple(_at(config, path) for path in self._bounds)
        self._rows.append((trial.trial_id, values, float(time), state.last_score))

    def _get_new_config(
        self, trial: Trial, trial_to_clone: Trial
    ) -> tuple[Config, dict[str, str]]:
        config = copy.deepcopy(trial_to_clone.config)
        chosen = self._choose(trial, trial_to_clone)
        for path, value in zip(self._bounds, chosen, strict=True):
            old = _at(config, path)
            _set_at(config, path, round(value) if isinstance(old, int) else float(value))
        if self._custom_explore_fn is not None:
            config = self._custom_explore_fn(config)
            if config is None:
                raise ValueError("custom_explore_fn must return the new configuration; got None")
        self._note_begin(trial, config, self._states[trial_to_clone.trial_id])
        return config, {"/".join(path): "bandit" for path in self._bounds}

    def _note_begin(self, trial: Trial, config: Config, source: _State) -> None:
        """Note where the trial begins: what it gains on that, it gains by this configuration."""
        values = tuple(_at(config, path) for path in self._bounds)
        row = (trial.trial_id, values, float(source.last_train_time), source.last_score)
        self._rows.append(row)

    def _choose(self, trial: Trial, source: Trial) -> Array:
        low, high = np.array(list(self._bounds.values()), dtype=float).T
        candidates = np.random.uniform(low, high, (_TRIES, len(low)))
        data, growth = self._growth()
        if len(growth) < 2:
            first: Array = candidates[0]
            return first
        mean, spread = data.mean(axis=0), data.std(axis=0) + 1e-9
        state = self._states[source.trial_id]
        situation = np.tile([state.last_train_time, state.last_score], (_TRIES, 1))
        targets = (growth - growth.mean()) / (growth.std() + 1e-9)
        model = _process((data - mean) / spread, targets)
        points = (np.hstack([situation, candidates]) - mean) / spread
        expected, unsure = model.predict(points, return_std=True)
        pending = self._distance_to_pending(trial, candidates, low, high)
        confidence = 0.2 * np.log(max(len(growth), 2)) + 1.0
        best: Array = candidates[np.argmax(expected + confidence * unsure * pending)]
        return best

    def _distance_to_pending(
        self, trial: Trial, candidates: Array, low: Array, high: Array
    ) -> Array:
        """Rate candidates: near 0 where another trial is trying the same right now, else 1."""
        factor = np.ones(len(candidates))
        for state in self._states.values():
            if state.trial is trial or state.trial.is_finished():
                continue
            other = np.array([_at(state.trial.config, path) for path in self._bounds], dtype=float)
            distance = np.linalg.norm((candidates - other) / (high - low + 1e-9), axis=1)
            factor *= 1 - np.exp(-((distance / 0.05) ** 2))
        return factor

    def _growth(self) -> tuple[Array, Array]:
        """Collect rows of (time, score before, parameters), and the score's growth per time."""
        last: dict[tuple[str, tuple[float, ...]], tuple[float, float]] = {}
        data, growth = [], []
        for trial_id, values, time, score in self._rows[-4 * _MOST_POINTS :]:
            before = last.get((trial_id, values))
            last[trial_id, values] = (time, score)
            if before is not None and time > before[0]:
                data.append([before[0], before[1], *map(float, values)])
                growth.append((score - before[1]) / (time - before[0]))
        return np.array(data[-_MOST_POINTS:]), np.array(growth[-_MOST_POINTS:])


def _process(data: Array, targets: Array) -> GaussianProcessRegressor:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, WhiteKernel

    kernel = RBF(np.ones(data.shape[1])) + WhiteKernel(0.1)
    model = GaussianProcessRegressor(kernel=kernel, optimizer=None, normalize_y=False, alpha=1e-6)
    return model.fit(data, targets)


def _flat_bounds(
    bounds: Config, path: tuple[str, ...] = ()
) -> dict[tuple[str, ...], tuple[float, float]]:
    flat: dict[tuple[str, ...], tuple[float, float]] = {}
    for name, bound in bounds.items():
        here = (*path, name)
        if isinstance(bound, dict):
            flat.update(_flat_bounds(bound, here))
        elif isinstance(bound, (list, tuple)) and len(bound) == 2 and bound[0] <= bound[1]:
            flat[here] = (bound[0], bound[1])
        else:
            raise ValueError(
                f"hyperparam_bounds takes [low, high] pairs; got {'/'.join(here)}={bound!r}"
            )
    return flat


def _as_domains(bounds: Config) -> Config:
    from skate.tune.search.sample import uniform

    return {
        name: _as_domains(bound) if isinstance(bound, dict) else uniform(*bound)
        for name, bound in bounds.items()
    }


def _at(config: Config, path: tuple[str, ...]) -> Any:
    for name in path:
        config = config[name]
    return config


def _set_at(config: Config, path: tuple[str, ...], value: object) -> None:
    _at(config, path[:-1])[path[-1]] = value
