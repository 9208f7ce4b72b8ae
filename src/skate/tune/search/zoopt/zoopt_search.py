"""Search with ZOOpt's ASRacos: classification of the space, without derivatives."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from skate._core.optional_imports import try_import
from skate._run.types import Config
from skate.tune.search._samplers import LogUniform, Quantized, Uniform
from skate.tune.search.ask_tell import AskTellSearcher
from skate.tune.search.sample import Categorical, Domain, Float, Integer
from skate.tune.search.searcher import Searcher
from skate.tune.search.variant_generator import parse_spec_vars

_PRECISION = 1e-10


class ZOOptSearch(AskTellSearcher):
    """ZOOpt chooses the configurations.

    Args:
        algo: "asracos", the only one that is asked for points.
        budget: How many trials there will be; by default the tuner's `num_samples`.
        dim_dict: ZOOpt's dimensions by name, as `(ValueType.CONTINUOUS, [0, 1], 1e-6)`, and
            domains; or nothing: then those of the tuner's space are translated.
        metric: The reported metric to optimise.
        mode: Whether it is to be "min" or "max".
        points_to_evaluate: Configurations to try first.
        parallel_num: How many trials it has under way once the first ones are known.
        **kwargs: Further arguments of ZOOpt's `Parameter`, as `exploration_rate`. `space` is
            another name of `dim_dict`.

    Raises:
        ImportError: If the package zoopt is not installed.
        ValueError: If it is another algorithm.
    """

    def __init__(
        self,
        algo: str = "asracos",
        budget: int | None = None,
        dim_dict: dict[str, Any] | None = None,
        metric: str | None = None,
        mode: str | None = None,
        points_to_evaluate: list[Config] | None = None,
        parallel_num: int = 1,
        **kwargs: object,
    ) -> None:
        try_import("zoopt", "zoopt")
        space: Any = kwargs.pop("space", None)
        super().__init__(metric, mode, points_to_evaluate)
        if algo.lower() not in ("asracos", "sracos"):
            raise ValueError(f"algo takes 'asracos'; got {algo!r}")
        self._budget = budget
        self._parallel = parallel_num
        self._options = kwargs
        self._optimizer: Any = None
        self._worst = 0.0
        self._begin(space if dim_dict is None else dim_dict)

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: object
    ) -> bool:
        samples = spec.get("num_samples")
        if self._budget is None and isinstance(samples, int) and samples > 0:
            self._budget = samples
        return super().set_search_properties(metric, mode, config, **spec)

    @staticmethod
    def convert_search_space(spec: Mapping[str, Any], join: bool = False) -> dict[str, Any]:
        """Return a space in ZOOpt's words, for `dim_dict`.

        Args:
            spec: Tune's space. What is inside of others has names as "layer/size".
            join: Whether the constants are in it too.

        Raises:
            ValueError: For grids, and for numbers that are not drawn evenly between two bounds.
        """
        _, domains, grids = parse_spec_vars(spec)
        if grids:
            raise ValueError("ZOOpt cannot walk over grids: it takes ranges and choices only")
        words = {"/".join(map(str, path)): _in_zoopts_words(path, each) for path, each in domains}
        return {**spec, **words} if join else words

    def _translated(self, space: Mapping[str, Any]) -> dict[str, Any]:
        own = {name: words for name, words in space.items() if isinstance(words, tuple)}
        return {**super()._translated(space), **own}

    def _in_words(self, name: str, domain: Domain) -> tuple[Any, ...]:
        kinds = try_import("zoopt", "zoopt").ValueType
        sampler = domain.get_sampler()
        if isinstance(sampler, Quantized):
            sampler = sampler.sampler
        if isinstance(domain, Categorical):
            return (kinds.GRID, list(range(len(domain.categories))))
        if not isinstance(domain, (Float, Integer)) or not math.isfinite(domain.lower):
            raise ValueError(
                f"ZOOpt takes numbers between two bounds, and choices; {name!r} is a "
                f"{type(domain).__name__}"
            )
        if isinstance(sampler, LogUniform):
            bounds = [math.log(domain.lower), math.log(domain.upper)]
            return (kinds.CONTINUOUS, bounds, _PRECISION)
        if isinstance(domain, Integer):
            return (kinds.DISCRETE, [domain.lower, domain.upper - 1], True)
        return (kinds.CONTINUOUS, [domain.lower, domain.upper], _PRECISION)

    def _setup(self, space: Mapping[str, object]) -> None:
        zoopt = try_import("zoopt", "zoopt")
        racos = try_import("zoopt.algos.opt_algorithms.racos.sracos", "zoopt")
        if self._budget is None:
            return  # until the tuner says how many trials there will be
        points = [list(self._encoded(self._flat(p)).values()) for p in self._points_to_evaluate]
        self._points_to_evaluate = []
        parameter = zoopt.Parameter(
            budget=self._budget, init_samples=points or None, **self._options
        )
        dimension = zoopt.Dimension2(list(space.values()))
        self._optimizer = racos.SRacosTune(dimension, parameter, parallel_num=self._parallel)

    def _names(self) -> Any:
        return self._space

    def _ask(self) -> tuple[Any, dict[str, Any]] | str | None:
        if self._optimizer is None:
            raise ValueError(
                "ZOOptSearch needs to know how many trials there will be: give it budget=…"
            )
        solution = self._optimizer.suggest() or self._asked_again()
        if solution is None:
            return None
        if isinstance(solution, str):
            return Searcher.FINISHED
        return solution, self._decoded(dict(zip(self._space, solution.get_x(), strict=True)))

    def _asked_again(self) -> Any:
        """Ask once more if the first points are known.

        ZOOpt waits for them when it has given the last one, and goes on when it hears of that: if
        this came first, it would wait for ever.
        """
        optimizer = self._optimizer
        if optimizer.semaphore or optimizer.complete_num < optimizer._parameter.get_train_size():
            return None
        optimizer.semaphore = 1
        return optimizer.suggest()

    def _given(self, point: dict[str, Any]) -> Any:
        raise NotImplementedError(
            "ZOOptSearch cannot take evaluated points: it begins with points of its own"
        )

    def _observe(self, known: object, loss: float) -> None:
        self._worst = max(self._worst, loss)
        self._optimizer.complete(known, loss)

    def _abandon(self, known: object) -> None:
        """Tell ZOOpt, which waits for each, that this one is as bad as any."""
        self._optimizer.complete(known, self._worst)

    def _encoded(self, point: Mapping[str, object]) -> dict[str, Any]:
        return {name: self._converted(name, value, encode=True) for name, value in point.items()}

    def _decoded(self, point: Mapping[str, object]) -> dict[str, Any]:
        return {name: self._converted(name, value, encode=False) for name, value in point.items()}

    def _converted(self, name: str, value: Any, encode: bool) -> Any:
        """Turn options into their places and magnitudes into logarithms, or back."""
        domain: Any = self._domains.get(name)
        if isinstance(domain, Categorical):
            options = domain.categories
            return options.index(value) if encode else options[int(value)]
        sampler = domain.get_sampler() if domain is not None else None
        if isinstance(sampler, Quantized):
            sampler = sampler.sampler
        if not isinstance(sampler, LogUniform):
            return value
        if encode:
            return math.log(value)
        found = min(max(math.exp(value), domain.lower), domain.upper)
        return min(int(found), domain.upper - 1) if isinstance(domain, Integer) else found


def _in_zoopts_words(path: tuple[Any, ...], domain: Any) -> tuple[Any, ...]:
    """Translate one of a space's domains, such that ZOOpt suggests the value itself."""
    kinds = try_import("zoopt", "zoopt").ValueType
    sampler, precision = domain.get_sampler(), _PRECISION
    if isinstance(sampler, Quantized):
        precision, sampler = sampler.q, sampler.sampler
    if isinstance(domain, Categorical):
        return (kinds.GRID, list(domain.categories))
    bounded = isinstance(domain, (Float, Integer)) and math.isfinite(domain.lower)
    if not bounded or not isinstance(sampler, Uniform):
        raise ValueError(
            f"ZOOpt takes numbers that are drawn evenly between two bounds, and choices; "
            f"{'/'.join(map(str, path))!r} is a {type(domain).__name__} by {sampler}"
        )
    if isinstance(domain, Integer):
        return (kinds.DISCRETE, [domain.lower, domain.upper - 1], True)
    return (kinds.CONTINUOUS, [domain.lower, domain.upper], precision)
