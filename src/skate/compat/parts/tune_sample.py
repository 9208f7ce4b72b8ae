"""Of `ray.tune.search.sample`: the private name that searchers outside of Ray use."""

from __future__ import annotations

from skate.tune.search.sample import Rng as _BackwardsCompatibleNumpyRng

__all__ = ["_BackwardsCompatibleNumpyRng"]
