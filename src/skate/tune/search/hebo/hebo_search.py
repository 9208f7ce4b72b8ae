"""Search with HEBO, Huawei's Bayesian optimisation for noisy objectives whose scale changes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.tune.search._samplers import LogUniform, Quantized
from skate.tune.search.ask_tell import AskTellSearcher, seeded_torch
from skate.tune.search.sample import Categorical, Domain, Float, Integer
from skate.tune.search.searcher import check_rewards

if TYPE_CHECKING:
    from skate._run.types import Config


class HEBOSearch(AskTellSearcher):
    """HEBO chooses the configurations.

    Args:
        space: HEBO's `DesignSpace`; or domains; or nothing: then those of the tuner's space are
            translated.
        metric: The reported metric to optimise.
        mode: Whether it is to be "min" or "max".
        points_to_evaluate: Configurations to try first.
        evaluated_rewards: What is known to come of these, which are not tried then.
        random_state_seed: With which the same points come again.
        max_concurrent: How many trials it has under way.
        **kwargs: Further arguments of HEBO's optimiser, as `model_name`.

    Raises:
        ImportError: If the package HEBO is not installed.
        ValueError: If there are rewards, but not one per point.
    """

    def __init__(
        self,
        space: object = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        evaluated_rewards: list[float] | None = None,
        random_state_seed: int | None = None,
        max_concurrent: int = 8,
        **kwargs: object,
    ) -> None:
        try_import("hebo", "hebo")
        super().__init__(metric, mode, points_to_evaluate, max_concurrent)
        check_rewards(self._points_to_evaluate, evaluated_rewards)
        self._rewards = evaluated_rewards
        self._seed = random_state_seed
        self._options = kwargs
        self._hebo: Any = None
        self._design: Any = None
        self._draws = 0
        # in a tuple: a design space of HEBO does not say whether it is true
        own = space is not None and not isinstance(space, dict)
        self._begin((space,) if own else space)

    def set_seed(self, seed: int) -> None:
        if self._seed is None:
            self._seed = seed
            if self._is_set_up:
                self._setup(self._space)

    def _in_words(self, name: str, domain: Domain) -> dict[str, Any]:
        sampler = domain.get_sampler()
        if isinstance(sampler, Quantized):
            sampler = sampler.sampler
        if isinstance(domain, Categorical):
            return {"name": name, "type": "cat", "categories": list(domain.categories)}
        if not isinstance(domain, (Float, Integer)):
            raise ValueError(f"HEBO cannot draw {name!r}, a {type(domain).__name__}")
        log, whole = isinstance(sampler, LogUniform), isinstance(domain, Integer)
        kind = ("pow_int" if log else "int") if whole else "pow" if log else "num"
        high = domain.upper - 1 if whole else domain.upper
        return {"name": name, "type": kind, "lb": domain.lower, "ub": high}

    def _setup(self, space: Any) -> None:
        design = try_import("hebo.design_space.design_space", "hebo").DesignSpace
        made = isinstance(space, tuple)
        self._design = space[0] if made else design().parse(list(space.values()))
        seed = None if self._seed is None else self._seed % 2**31
        optimizer = try_import("hebo.optimizers.hebo", "hebo").HEBO
        self._hebo = optimizer(self._design, scramble_seed=seed, **self._options)
        if self._rewards is not None:
            for point, reward in zip(self._points_to_evaluate, self._rewards, strict=True):
                self.add_evaluated_point(point, reward)
            self._points_to_evaluate, self._rewards = [], None

    def _names(self) -> Any:
        return self._design.paras

    def _ask(self) -> tuple[Any, dict[str, Any]]:
        with seeded_torch(self._seed, self._draws):
            known = self._hebo.suggest(n_suggestions=1)
        self._draws += 1
        return known, dict(known.iloc[0])

    def _given(self, point: dict[str, Any]) -> Any:
        import pandas as pd

        return pd.DataFrame([point])[list(self._names())]

    def _observe(self, known: object, loss: float) -> None:
        import numpy as np

        self._hebo.observe(known, np.array([[loss]]))
