"""Search with Optuna: its samplers (TPE by default) choose, trials are asked for and told."""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._run.types import ResultRow
from skate.tune.result import TRAINING_ITERATION
from skate.tune.search._samplers import LogUniform, Quantized, Uniform
from skate.tune.search.sample import Categorical, Domain, Float, Integer
from skate.tune.search.searcher import EvaluatedPoint, check_rewards, plain_points
from skate.tune.search.space_searcher import SpaceSearcher
from skate.tune.search.variant_generator import has_unresolved_values, parse_spec_vars
from skate.tune.utils.util import flatten_dict, unflatten_dict, unflattened_lookup

if TYPE_CHECKING:
    from skate._run.types import Config


logger: logging.Logger = logging.getLogger(__name__)

_MISSING = object()


class OptunaSearch(SpaceSearcher):
    """Let Optuna choose the configurations.

    Args:
        space: A dictionary of Optuna distributions, or a function that calls `trial.suggest_…`
            (define-by-run); by default the domains of the tuner's space are translated.
        metric: The metric that is compared, or a list for several objectives; by default that of
            the TuneConfig.
        mode: "min" or "max", or a list with one of them for each objective.
        points_to_evaluate: Configurations to try first.
        sampler: One of `optuna.samplers`; by default TPESampler.
        study_name: The name of the study; in a `storage` a study of that name is continued.
        storage: Where the study is kept: a storage of optuna's, or the URL of a database as
            "sqlite:///search.db", in which optuna-dashboard shows it while it runs. By default in
            memory.
        seed: The seed of the default sampler.
        evaluated_rewards: The metric's values of `points_to_evaluate`, which are then taken as
            known and not run.

    Raises:
        TypeError: If `sampler` or `storage` is not one.
        ValueError: If a seed comes with a sampler, which has its own.

    Example:
        >>> from skate import tune
        >>> from skate.tune.search.optuna import OptunaSearch
        >>> tuner = tune.Tuner(
        ...     lambda config: {"loss": (config["x"] - 2) ** 2},
        ...     param_space={"x": tune.uniform(0, 4)},
        ...     tune_config=tune.TuneConfig(
        ...         metric="loss", mode="min", num_samples=4, search_alg=OptunaSearch(seed=0)
        ...     ),
        ...     run_config=tune.RunConfig(verbose=0),
        ... )
        >>> len(tuner.fit())
        4
    """

    def __init__(
        self,
        space: dict[str, Any] | Callable[[Any], dict[str, Any] | None] | None = None,
        metric: str | list[str] | None = None,
        mode: str | list[str] | None = None,
        points_to_evaluate: list[Config] | None = None,
        sampler: Any = None,
        study_name: str | None = None,
        storage: Any = None,
        seed: int | None = None,
        evaluated_rewards: list[float] | None = None,
    ) -> None:
        optuna = try_import("optuna", "tune")
        super().__init__(metric=metric, mode=mode)
        if sampler is not None and not isinstance(sampler, optuna.samplers.BaseSampler):
            raise TypeError(f"sampler takes an optuna sampler; got {sampler!r}")
        if sampler is not None and seed is not None:
            raise ValueError("give the seed to the sampler; `seed` is for the default sampler")
        is_url = isinstance(storage, str) and "://" in storage
        if not is_url and not isinstance(storage, (optuna.storages.BaseStorage, type(None))):
            raise TypeError(
                "storage takes an optuna storage, or the URL of a database as "
                f"'sqlite:///search.db'; got {storage!r}"
            )
        self._sampler = sampler
        self._seed = seed
        self._storage = storage
        self._study_name = study_name or "optuna"
        self._points_to_evaluate = plain_points(points_to_evaluate)
        self._evaluated_rewards = evaluated_rewards
        check_rewards(self._points_to_evaluate, evaluated_rewards)
        self._ot_trials: dict[str, Any] = {}
        self._completed_trials: set[str] = set()
        self._ot_study: Any = None
        self._rounding: dict[str, Any] = {}
        if isinstance(space, Mapping) and not has_unresolved_values(space):
            space = flatten_dict(space)
        if metric is None and isinstance(mode, list):
            raise ValueError("with a list of modes, `metric` takes a list of names; got None")
        self._begin(space)

    def set_seed(self, seed: int) -> None:
        if self._seed is None and self._sampler is None:
            self._seed = seed
            if self._ot_study is not None:
                self._ot_study.sampler = self._own_sampler()

    def _own_sampler(self) -> Any:
        import optuna

        return self._sampler or optuna.samplers.TPESampler(seed=self._seed)

    def _translated(self, space: Mapping[str, Any]) -> dict[str, Any]:
        self._rounding = {
            name: domain
            for name, domain in _domains(space).items()
            if isinstance(domain.get_sampler(), Quantized)
        }
        return self.convert_search_space(space)

    def _setup(self, space: Any) -> None:
        import optuna

        modes = self._mode if isinstance(self._mode, (list, tuple)) else [self._mode]
        with quiet():
            self._ot_study = optuna.create_study(
                storage=self._storage,
                sampler=self._own_sampler(),
                pruner=optuna.pruners.NopPruner(),
                study_name=self._study_name,
                load_if_exists=True,
                directions=["minimize" if mode == "min" else "maximize" for mode in modes],
            )
        self._add_points()

    def _add_points(self) -> None:
        if not self._evaluated_rewards:
            for point in self._points_to_evaluate:
                self._ot_study.enqueue_trial(self._flat(point))
            return
        for point, reward in zip(self._points_to_evaluate, self._evaluated_rewards, strict=True):
            self.add_evaluated_point(point, reward)

    def _flat(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Pick the part of a point that Optuna chooses, by its names."""
        if callable(self._space):
            return flatten_dict(point)
        found = {n: unflattened_lookup(n, point, default=_MISSING) for n in self._space}
        return {name: value for name, value in found.items() if value is not _MISSING}

    # -- trials ------------------------------------------------------------------------------

    def suggest(self, trial_id: str) -> dict[str, Any] | None:
        self._check_ready()
        if callable(self._space):
            trial = self._asked(trial_id)
            return unflatten_dict(_define_by_run(self._space, trial))
        trial = self._asked(trial_id, self._space)
        return unflatten_dict({name: self._rounded(name, v) for name, v in trial.params.items()})

    def _asked(self, trial_id: str, distributions: Any = None) -> Any:
        if trial_id not in self._ot_trials:
            self._ot_trials[trial_id] = self._ot_study.ask(fixed_distributions=distributions)
        return self._ot_trials[trial_id]

    def _rounded(self, name: str, value: Any) -> Any:
        """Round a value where Optuna cannot: it has no steps in a logarithmic range."""
        domain = self._rounding.get(name)
        if domain is None:
            return value
        q = domain.get_sampler().q
        return domain.cast(min(max(round(value / q) * q, domain.lower), domain.upper))

    def on_trial_result(self, trial_id: str, result: ResultRow) -> None:
        if isinstance(self._metric, list) or trial_id in self._completed_trials:
            return  # Optuna takes intermediate values of one objective only
        if self._metric in result and trial_id in self._ot_trials:
            step = result[TRAINING_ITERATION]
            self._ot_trials[trial_id].report(float(result[self._metric]), step)

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        import optuna

        if trial_id in self._completed_trials or trial_id not in self._ot_trials:
            return
        self._completed_trials.add(trial_id)
        trial = self._ot_trials.pop(trial_id)
        values = self._values(result)
        states = optuna.trial.TrialState
        if values is None:
            self._ot_study.tell(trial, state=states.FAIL if error else states.PRUNED)
        elif any(math.isnan(value) for value in values):
            self._ot_study.tell(trial, state=states.FAIL)
        else:
            self._ot_study.tell(trial, values)

    def _values(self, result: ResultRow | None) -> list[float] | None:
        names = self._metric if isinstance(self._metric, (list, tuple)) else [self._metric]
        if not result or any(result.get(name) is None for name in names):
            return None
        return [float(result[name]) for name in names]

    def _take_point(self, point: EvaluatedPoint) -> None:
        import optuna

        self._check_ready()
        if callable(self._space):
            raise TypeError(
                "evaluated points need a space of distributions; this one is a function. Give "
                "a dictionary as `space`, or domains in the tuner's space"
            )
        states = optuna.trial.TrialState
        ended = states.PRUNED if point.pruned else states.COMPLETE
        self._ot_study.add_trial(
            optuna.trial.create_trial(
                state=states.FAIL if point.error else ended,
                value=None if point.error else point.value,
                params=self._flat(point.parameters),
                distributions=self._space,
                intermediate_values=dict(enumerate(point.intermediate_values or ())),
            )
        )

    @staticmethod
    def convert_search_space(spec: Mapping[str, Any]) -> dict[str, Any]:
        """Turn domains into Optuna's distributions, by names as "layer/size".

        What a function makes (`sample_from`) is left out: it is drawn when the rest is known.

        Args:
            spec: A space with domains.

        Raises:
            ValueError: If a domain has no counterpart, as grids.
        """
        return {
            name: _distribution(name, domain)
            for name, domain in _domains(spec).items()
            if not domain.is_function()
        }


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Keep Optuna from announcing every study inside of the block."""
    import optuna

    loud = optuna.logging.get_verbosity()
    optuna.logging.set_verbosity(max(loud, optuna.logging.WARNING))
    try:
        yield
    finally:
        optuna.logging.set_verbosity(loud)


def _domains(spec: Mapping[str, Any]) -> dict[str, Domain]:
    _, domains, grids = parse_spec_vars(spec)
    if grids:
        raise ValueError(
            f"Optuna cannot walk over grids ({['/'.join(map(str, p)) for p, _ in grids]}): use "
            f"choice() in place of grid_search()"
        )
    flatten_dict(spec, prevent_delimiter=True)
    return {"/".join(map(str, path)): domain for path, domain in domains}


def _distribution(name: str, domain: Domain) -> Any:
    from optuna import distributions

    sampler = domain.get_sampler()
    step = None
    if isinstance(sampler, Quantized):
        step, sampler = sampler.q, sampler.sampler
    if isinstance(domain, Categorical) and isinstance(sampler, Uniform):
        return distributions.CategoricalDistribution(domain.categories)
    log = isinstance(sampler, LogUniform)
    if isinstance(domain, Float) and (log or isinstance(sampler, Uniform)):
        return distributions.FloatDistribution(
            domain.lower, domain.upper, log=log, step=None if log else step
        )
    if isinstance(domain, Integer) and (log or isinstance(sampler, Uniform)):
        # the upper bound is included when rounding, else it is not
        upper = domain.upper if step and step > 1 else domain.upper - 1
        return distributions.IntDistribution(
            domain.lower, upper, log=log, step=int(1 if log else step or 1)
        )
    raise ValueError(
        f"Optuna cannot draw {name!r}, a {type(domain).__name__} with the sampler {sampler}; it "
        f"knows uniform, loguniform, randint, lograndint, their rounded forms, and choice"
    )


class _Recorder:
    """An Optuna trial that remembers everything it has suggested."""

    def __init__(self, trial: Any) -> None:
        self._trial = trial
        self.captured_values: dict[str, Any] = {}

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._trial, name)
        if not name.startswith("suggest_"):
            return found

        def suggest(parameter: str, *args: Any, **kwargs: Any) -> Any:
            value = found(parameter, *args, **kwargs)
            self.captured_values[parameter] = value
            return value

        return suggest


def _define_by_run(function: Callable[[Any], Any], trial: Any) -> dict[str, Any]:
    recorder = _Recorder(trial)
    constants = function(recorder)
    if constants is not None and not (
        isinstance(constants, dict) and all(isinstance(key, str) for key in constants)
    ):
        raise TypeError(
            f"a define-by-run space returns None or a dictionary with text keys; got {constants!r}"
        )
    return {**recorder.captured_values, **(constants or {})}
