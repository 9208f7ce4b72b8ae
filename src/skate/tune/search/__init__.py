"""Where configurations come from."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from skate.tune.search.basic_variant import BasicVariantGenerator
from skate.tune.search.concurrency_limiter import ConcurrencyLimiter
from skate.tune.search.repeater import Repeater
from skate.tune.search.search_algorithm import SearchAlgorithm
from skate.tune.search.search_generator import SearchGenerator
from skate.tune.search.searcher import (
    UNDEFINED_METRIC_MODE,
    UNDEFINED_SEARCH_SPACE,
    UNRESOLVED_SEARCH_SPACE,
    Searcher,
)
from skate.tune.search.variant_generator import grid_search

SEARCHERS = {
    "variant_generator": ("basic_variant", "BasicVariantGenerator"),
    "random": ("basic_variant", "BasicVariantGenerator"),
    "optuna": ("optuna", "OptunaSearch"),
    "hyperopt": ("hyperopt", "HyperOptSearch"),
    "bayesopt": ("bayesopt", "BayesOptSearch"),
    "bohb": ("bohb", "TuneBOHB"),
    "nevergrad": ("nevergrad", "NevergradSearch"),
    "ax": ("ax", "AxSearch"),
    "hebo": ("hebo", "HEBOSearch"),
    "zoopt": ("zoopt", "ZOOptSearch"),
}

__all__ = [
    "UNDEFINED_METRIC_MODE",
    "UNDEFINED_SEARCH_SPACE",
    "UNRESOLVED_SEARCH_SPACE",
    "BasicVariantGenerator",
    "ConcurrencyLimiter",
    "Repeater",
    "SearchAlgorithm",
    "SearchGenerator",
    "Searcher",
    "create_searcher",
    "grid_search",
]


def create_searcher(search_alg: str, **kwargs: object) -> Any:
    """Make a searcher by its name.

    Args:
        search_alg: "random", "optuna", "hyperopt", "bayesopt", "bohb", "nevergrad", "ax", "hebo"
            or "zoopt".
        **kwargs: Its arguments; those that it does not know are left out, so that names can be
            exchanged.

    Raises:
        ValueError: If there is no such name.

    Example:
        >>> from skate import tune
        >>> type(tune.create_searcher("random")).__name__
        'BasicVariantGenerator'
    """
    from skate.tune._arguments import accepted

    name = search_alg.lower()
    if name not in SEARCHERS:
        raise ValueError(f"search_alg takes one of {list(SEARCHERS)}; got {search_alg!r}")
    module, attribute = SEARCHERS[name]
    found = getattr(import_module(f"skate.tune.search.{module}"), attribute)
    return found(**accepted(found, kwargs))
