"""Search with Ax, Meta's platform for experiments: Sobol points, then BoTorch's models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.tune.search._samplers import LogUniform, Quantized
from skate.tune.search.ask_tell import AskTellSearcher, seeded_torch
from skate.tune.search.sample import Categorical, Domain, Float, Integer
from skate.tune.search.searcher import negated_if_max

if TYPE_CHECKING:
    from skate._run.types import Config


class AxSearch(AskTellSearcher):
    """Ax chooses the configurations.

    Args:
        space: Ax's parameters, a list of dictionaries; or domains; or nothing: then those of the
            tuner's space are translated.
        metric: The reported metric to optimise.
        mode: Whether it is to be "min" or "max".
        points_to_evaluate: Configurations to try first.
        parameter_constraints: As Ax takes them: `["x3 >= x4"]`.
        outcome_constraints: Those of other metrics that trials report: `["size <= 3"]`.
        ax_client: A client that has its experiment, in place of a space.
        **ax_kwargs: Further arguments of `AxClient`, as `random_seed`.

    Raises:
        ImportError: If the package ax-platform is not installed.
        ValueError: If there is a space as well as a client, or a client without an experiment.
    """

    def __init__(
        self,
        space: dict[str, Any] | list[dict[str, Any]] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        parameter_constraints: list[str] | None = None,
        outcome_constraints: list[str] | None = None,
        ax_client: Any = None,
        **ax_kwargs: Any,
    ) -> None:
        try_import("ax", "ax")
        if ax_client is not None:
            objective = _objective_of(ax_client)
            metric = metric or objective.metric.name
            mode = mode or ("min" if objective.minimize else "max")
        super().__init__(metric, mode, points_to_evaluate)
        if ax_client is not None and (space is not None or ax_kwargs):
            raise ValueError("an ax_client has its space and its settings: leave the others out")
        self._constraints = parameter_constraints
        self._outcomes = outcome_constraints or []
        self._options = ax_kwargs
        self._seed: int | None = ax_kwargs.get("random_seed")
        self._ax = ax_client
        self._is_given = ax_client is not None
        self._names_in_ax: list[str] = []
        self._draws = 0
        if ax_client is not None:
            space = [{"name": name} for name in ax_client.experiment.parameters]
        self._begin(space)

    def set_seed(self, seed: int) -> None:
        if self._seed is None:
            self._seed = seed
            if self._is_set_up and not self._is_given:
                self._setup(self._space)

    def _in_words(self, name: str, domain: Domain) -> dict[str, Any]:
        sampler = domain.get_sampler()
        if isinstance(sampler, Quantized):
            sampler = sampler.sampler
        if isinstance(domain, Categorical):
            return _choice(name, domain.categories)
        if isinstance(domain, (Float, Integer)):
            whole = isinstance(domain, Integer)
            high = domain.upper - 1 if whole and domain.upper > domain.lower + 1 else domain.upper
            return {
                "name": name,
                "type": "range",
                "bounds": [domain.lower, high],
                "value_type": "int" if whole else "float",
                "log_scale": isinstance(sampler, LogUniform),
            }
        raise ValueError(f"Ax cannot draw {name!r}, a {type(domain).__name__}")

    def _setup(self, space: Any) -> None:
        client = try_import("ax.service.ax_client", "ax")
        parameters = list(space.values()) if isinstance(space, Mapping) else space
        self._names_in_ax = [parameter["name"] for parameter in parameters]
        if self._is_given:
            return
        options = {"verbose_logging": False, **self._options}
        if self._seed is not None:
            options["random_seed"] = self._seed % 2**31
        self._ax = client.AxClient(**options)
        self._ax.create_experiment(
            parameters=parameters,
            objectives={self._metric: client.ObjectiveProperties(minimize=True)},
            parameter_constraints=self._constraints,
            outcome_constraints=self._outcomes,
        )

    def _names(self) -> Any:
        return self._names_in_ax

    def _ask(self) -> tuple[int, dict[str, Any]] | None:
        strategy = try_import("ax.exceptions.generation_strategy", "ax")
        core = try_import("ax.exceptions.core", "ax")
        try:
            with seeded_torch(self._seed, self._draws):
                point, index = self._ax.get_next_trial()
        except (strategy.MaxParallelismReachedException, core.DataRequiredError):
            return None  # it waits for results
        self._draws += 1
        return index, dict(point)

    def _given(self, point: dict[str, Any]) -> int:
        _, index = self._ax.attach_trial(point)
        return int(index)

    def on_trial_complete(
        self, trial_id: str, result: dict[str, Any] | None = None, error: bool = False
    ) -> None:
        known = self._live.get(trial_id)
        if known is not None and result and not error:
            others = {name: result[name] for name in self._constrained() if name in result}
            self._live[trial_id] = (known, others)
        super().on_trial_complete(trial_id, result, error)

    def _constrained(self) -> list[str]:
        return [constraint.split()[0] for constraint in self._outcomes]

    def _observe(self, known: Any, loss: float) -> None:
        index, others = known if isinstance(known, tuple) else (known, {})
        if self._is_given:  # whose objective may be one to maximise
            loss = negated_if_max(loss, str(self._mode))
        data = {self._metric: loss, **others}
        self._ax.complete_trial(index, raw_data={name: (v, None) for name, v in data.items()})

    def _abandon(self, known: Any) -> None:
        self._ax.log_trial_failure(known[0] if isinstance(known, tuple) else known)


def _choice(name: str, values: list[Any]) -> dict[str, Any]:
    if not all(isinstance(value, (str, int, float, bool)) for value in values):
        raise ValueError(
            f"Ax chooses among texts, numbers and booleans; {name!r} has {values!r}. Choose among "
            "their names, and look them up in the trial"
        )
    if len(values) == 1:
        return {"name": name, "type": "fixed", "value": values[0]}
    return {
        "name": name,
        "type": "choice",
        "values": list(values),
        "is_ordered": False,
        "sort_values": False,
    }


def _objective_of(client: Any) -> Any:
    try:
        return client.objective
    except (AssertionError, ValueError) as error:
        raise ValueError(
            "ax_client has no experiment yet: call its create_experiment(parameters=…) first"
        ) from error
