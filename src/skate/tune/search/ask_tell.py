"""Searchers around optimisers that are asked for points and told what came of them."""

from __future__ import annotations

import contextlib
import math
from abc import abstractmethod
from collections.abc import Iterator, Mapping
from typing import Any

from skate._run.types import Config, ResultRow
from skate.tune.search._samplers import Quantized
from skate.tune.search.sample import Domain
from skate.tune.search.searcher import negated_if_max, plain_points
from skate.tune.search.space_searcher import SpaceSearcher
from skate.tune.search.variant_generator import parse_spec_vars
from skate.tune.utils.util import unflatten_dict, unflattened_lookup


class AskTellSearcher(SpaceSearcher):
    """Search with an optimiser of flat points, by names as "layer/size", that minimises.

    Args:
        metric: The reported metric to optimise.
        mode: Whether it is to be "min" or "max".
        points_to_evaluate: Configurations to try first.
        max_concurrent: How many trials it has under way; 0 is no limit of its own.
    """

    def __init__(
        self,
        metric: str | None,
        mode: str | None,
        points_to_evaluate: list[Config] | None,
        max_concurrent: int = 0,
    ) -> None:
        super().__init__(metric=metric, mode=mode)
        self._points_to_evaluate = plain_points(points_to_evaluate)
        self._max_concurrent = max_concurrent
        self._domains: dict[str, Domain] = {}
        self._live: dict[str, Any] = {}  # what the optimiser knows a trial by

    # -- what a package does -----------------------------------------------------------------

    @abstractmethod
    def _ask(self) -> tuple[Any, dict[str, Any]] | str | None:
        """Ask for a point, and what the optimiser knows it by; None for "not now", or FINISHED."""

    @abstractmethod
    def _given(self, point: dict[str, Any]) -> Any:
        """Return what the optimiser knows a point by that it has not chosen."""

    @abstractmethod
    def _observe(self, known: Any, loss: float) -> None:
        """Learn what has come of a point; less is better."""

    def _abandon(self, known: Any) -> None:
        """Forget a point that nothing has come of."""

    @abstractmethod
    def _in_words(self, name: str, domain: Domain) -> Any:
        """Say one domain in the words of the package."""

    # -- what a searcher does ----------------------------------------------------------------

    def set_max_concurrency(self, max_concurrent: int) -> bool:
        self._max_concurrent = max_concurrent
        return True

    def _translated(self, space: Mapping[str, Any]) -> Any:
        _, domains, grids = parse_spec_vars(space)
        name = type(self).__name__
        if grids:
            raise ValueError(f"{name} cannot walk over grids: use choice() for grid_search()")
        found = {"/".join(map(str, path)): domain for path, domain in domains}
        self._domains = {name: one for name, one in found.items() if not one.is_function()}
        return {name: self._in_words(name, domain) for name, domain in self._domains.items()}

    def suggest(self, trial_id: str) -> Config | str | None:
        self._check_ready()
        if 0 < self._max_concurrent <= len(self._live):
            return None
        if self._points_to_evaluate:
            point = self._flat(self._points_to_evaluate[0])
            known = self._given(point)
            del self._points_to_evaluate[0]
        else:
            asked = self._ask()
            if asked is None or isinstance(asked, str):
                return asked
            known, point = asked
        self._live[trial_id] = known
        return unflatten_dict({name: self._rounded(name, v) for name, v in point.items()})

    def _flat(self, point: Mapping[str, Any]) -> dict[str, Any]:
        """Pick the values of a point that are searched for, by their names."""
        names = [str(name) for name in self._names()]
        found = {name: unflattened_lookup(name, point, default=None) for name in names}
        missing = [name for name, value in found.items() if value is None]
        if missing:
            raise ValueError(f"the point {dict(point)} has no {missing}, which the space has")
        return found

    def _names(self) -> Any:
        return self._domains

    def _rounded(self, name: str, value: Any) -> Any:
        """Round a value as its domain says, which the package may not know to do."""
        value = value.item() if hasattr(value, "item") else value
        domain: Any = self._domains.get(name)
        sampler = domain.get_sampler() if domain is not None else None
        if not isinstance(sampler, Quantized):
            return value
        low, high = domain.lower, domain.upper
        return domain.cast(min(max(round(value / sampler.q) * sampler.q, low), high))

    def on_trial_complete(
        self, trial_id: str, result: ResultRow | None = None, error: bool = False
    ) -> None:
        known = self._live.pop(trial_id, None)
        if known is None:
            return
        value = float(result[self._metric]) if result and self._metric in result else math.nan
        if error or not math.isfinite(value):
            self._abandon(known)
        else:
            self._observe(known, negated_if_max(value, str(self._mode)))

    def _learn_point(self, parameters: Config, value: float) -> None:
        known = self._given(self._flat(parameters))
        self._observe(known, negated_if_max(value, str(self._mode)))


@contextlib.contextmanager
def seeded_torch(seed: int | None, draw: int) -> Iterator[None]:
    """Have torch draw as a seed and the number of the draw say; outside, as it did."""
    if seed is None:
        yield
        return
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed((seed << 20) + draw)
        yield
