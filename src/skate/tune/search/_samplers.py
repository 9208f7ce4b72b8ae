"""How the values of a domain are distributed: what draws them."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from copy import copy
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from skate._core.arrays import Array


UNSET: Any = object()


def warn_of_base(base: object) -> None:
    """Say that the base of a logarithm changes nothing, if one was given."""
    if base is not UNSET:
        warnings.warn("`base` has no effect on a log-uniform distribution", stacklevel=3)


class Rng:
    """NumPy's old and new generators behind one set of names; None is the global one."""

    def __init__(self, source: Any = None) -> None:
        if source is None or isinstance(source, (np.random.RandomState, np.random.Generator)):
            self._source = source
        else:
            self._source = np.random.default_rng(source)

    @classmethod
    def of(cls, source: object) -> Rng:
        """Make an Rng of a seed or generator; return `source` itself if it is one already."""
        return source if isinstance(source, Rng) else cls(source)

    def uniform(self, lower: float, upper: float, size: int) -> Array:
        return (self._source or np.random).uniform(lower, upper, size=size)

    def normal(self, mean: float, sd: float, size: int) -> Array:
        return (self._source or np.random).normal(mean, sd, size=size)

    def integers(self, lower: int, upper: int, size: int) -> Array:
        if isinstance(self._source, np.random.Generator):
            return self._source.integers(lower, upper, size=size)
        return (self._source or np.random).randint(lower, upper, size=size)

    def choice(self, count: int, size: int) -> Array:
        return (self._source or np.random).choice(np.arange(count), size=size)


class Sampler:
    """How the values of a domain are distributed."""

    def sample(
        self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None
    ) -> Any:
        """Draw one value of the domain, or a list of them if `size` is more than 1."""
        values = self._draw(domain, config, size, Rng.of(random_state))
        return values if len(values) > 1 else domain.cast(values[0])

    def _draw(self, domain: Any, config: object, size: int, rng: Rng) -> Any:
        raise TypeError(f"{type(self).__name__} cannot draw from {type(domain).__name__}")

    def __str__(self) -> str:
        return type(self).__name__.lstrip("_")


class BaseSampler(Sampler):
    """A sampler that is not a distribution."""


class Uniform(Sampler):
    """All values alike."""

    def _draw(self, domain: Any, config: object, size: int, rng: Rng) -> Any:
        return domain._drawn_evenly(size, rng)


class LogUniform(Sampler):
    """All orders of magnitude alike."""

    def __init__(self, base: object = UNSET) -> None:
        warn_of_base(base)

    def _draw(self, domain: Any, config: object, size: int, rng: Rng) -> Any:
        values = np.exp(rng.uniform(math.log(domain.lower), math.log(domain.upper), size))
        return np.floor(values).astype(int) if domain.is_whole else values


class Normal(Sampler):
    """A normal distribution; the domain has no bounds."""

    def __init__(self, mean: float = 0.0, sd: float = 1.0) -> None:
        if not sd > 0:
            raise ValueError(f"sd takes a number above 0; got {sd}")
        self.mean = mean
        self.sd = sd

    def _draw(self, domain: object, config: object, size: int, rng: Rng) -> Any:
        return rng.normal(self.mean, self.sd, size)


class Grid(Sampler):
    """Each value once; the variant generator walks over them."""

    def sample(
        self, domain: object, config: object = None, size: int = 1, random_state: object = None
    ) -> Any:
        raise RuntimeError("a grid is walked over, not sampled from; use choice() to sample")


class Quantized(Sampler):
    """Another sampler, rounded to multiples of `q` within the bounds."""

    def __init__(self, sampler: Sampler, q: float) -> None:
        self.sampler = sampler
        self.q = q

    def get_sampler(self) -> Sampler:
        """Return the sampler whose values are rounded."""
        return self.sampler

    def sample(
        self, domain: Any, config: object = None, size: int = 1, random_state: Any = None
    ) -> Any:
        rng = Rng.of(random_state)
        if domain.is_whole:
            values = np.multiply(self._indices(domain, config, size, rng), self.q)
        else:
            inner = copy(domain)
            inner.lower = self._index(domain.lower, np.ceil) * self.q
            inner.upper = self._index(domain.upper, np.floor) * self.q
            drawn = self.sampler.sample(inner, config, size, random_state=rng)
            values = np.round(np.divide(drawn, self.q)) * self.q
        if isinstance(values, np.ndarray):
            return [domain.cast(value) for value in values]
        return domain.cast(values)

    def _indices(self, domain: Any, config: object, size: int, rng: Rng) -> Any:
        """Draw positions on the grid, so that both bounds can be hit."""
        inner = copy(domain)
        inner.lower = int(self._index(domain.lower, np.ceil))
        inner.upper = int(self._index(domain.upper, np.floor))
        if inner.upper < inner.lower:
            raise ValueError(
                f"no multiple of q={self.q} lies between {domain.lower} and {domain.upper}"
            )
        if self.q != 1:
            inner.upper += 1
        return self.sampler.sample(inner, config, size, random_state=rng)

    def _index(self, bound: float, inwards: Callable[[float], float]) -> float:
        """Return the bound in multiples of q, rounded inwards; an infinite one stays."""
        if not math.isfinite(bound):
            return bound
        scaled = bound / self.q
        nearest = round(scaled)
        return nearest if math.isclose(scaled, nearest) else inwards(scaled)
