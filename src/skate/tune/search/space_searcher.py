"""What searchers share that work on a space: where it comes from, and when they begin."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Mapping
from typing import Any

from skate._run.types import Config
from skate.tune.result import DEFAULT_METRIC
from skate.tune.search.searcher import (
    UNDEFINED_METRIC_MODE,
    UNDEFINED_SEARCH_SPACE,
    EvaluatedPoint,
    Searcher,
)
from skate.tune.search.variant_generator import has_unresolved_values


class SpaceSearcher(Searcher):
    """Search a space of its own, or that of the tuner: the base of searchers of packages.

    `_translated` puts the space into the words of the package that does the work. `_setup` is
    called once, when space and mode are known.
    """

    _space: Any = None
    _is_set_up = False

    def _begin(self, space: Any) -> None:
        """Take the space that `__init__` was given, if any; to be called at its end."""
        has_domains = isinstance(space, Mapping) and has_unresolved_values(space)
        self._space = self._translated(space) if has_domains else space or None
        if self._mode:
            self._set_up_once()

    def set_search_properties(
        self, metric: str | None, mode: str | None, config: Config, **spec: Any
    ) -> bool:
        if self._is_set_up:
            return False
        has_own = self._space is not None
        if not has_own:
            self._space = self._translated(config)
        self._metric = metric or self._metric
        self._mode = mode or self._mode
        self._set_up_once()
        return not has_own

    def _set_up_once(self) -> None:
        if self._space:
            if self._metric is None and self._mode:
                self._metric = DEFAULT_METRIC
            self._setup(self._space)
            self._is_set_up = True

    def _take_point(self, point: EvaluatedPoint) -> None:
        """Learn from whole trials that have not failed; values on the way change nothing."""
        self._check_ready()
        if not point.error and not point.pruned and math.isfinite(point.value):
            self._learn_point(point.parameters, float(point.value))

    def _learn_point(self, parameters: Config, value: float) -> None:
        """Learn that a whole trial of these parameters gave this value."""
        raise NotImplementedError(f"{type(self).__name__} cannot take evaluated points")

    def _check_ready(self) -> None:
        name = type(self).__name__
        if not self._space:
            raise RuntimeError(UNDEFINED_SEARCH_SPACE.format(cls=name, space="space"))
        if not self._metric or not self._mode:
            raise RuntimeError(
                UNDEFINED_METRIC_MODE.format(cls=name, metric=self._metric, mode=self._mode)
            )

    @abstractmethod
    def _translated(self, space: Mapping[str, object]) -> object:
        """Say the domains of a space in the words of the package."""

    @abstractmethod
    def _setup(self, space: Any) -> None:
        """Make the optimiser."""
