"""Search spaces: domains of values, and how to draw from them.

A domain (`Float`, `Integer`, `Categorical`, `Function`) knows its values; its sampler (`Uniform`,
`LogUniform`, `Normal`, `Quantized`, `Grid`) how they are distributed. Searchers translate both.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from inspect import signature
from typing import Any, TypeVar

import numpy as np

_UNSET: Any = object()
_D = TypeVar("_D", bound="Domain")


class Rng:
    """NumPy's old and new generators behind one set of names; None is the global one."""

    def __init__(self, source: Any = None) -> None:
        if source is None or isinstance(source, (np.random.RandomState, np.random.Generator)):
            self._source = source
        else:
            self._source = np.random.default_rng(source)

    @classmethod
    def of(cls, source: Any) -> Rng:
        """`source` itself if it is one already."""
        return source if isinstance(source, Rng) else cls(source)

    def uniform(self, lower: float, upper: float, size: int) -> Any:
        return (self._source or np.random).uniform(lower, upper, size=size)

    def normal(self, mean: float, sd: float, size: int) -> Any:
        return (self._source or np.random).normal(mean, sd, size=size)

    def integers(self, lower: int, upper: int, size: int) -> Any:
        if isinstance(self._source, np.random.Generator):
            return self._source.integers(lower, upper, size=size)
        return (self._source or np.random).randint(lower, upper, size=size)

    def choice(self, count: int, size: int) -> Any:
        return (self._source or np.random).choice(np.arange(count), size=size)


class Sampler:
    """How the values of a domain are distributed."""

    def sample(
        self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None
    ) -> Any:
        """One value of the domain, or a list of them if `size` is more than 1."""
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
        if isinstance(domain, Categorical):
            return [domain.categories[index] for index in rng.choice(len(domain), size)]
        if isinstance(domain, Integer):
            return rng.integers(domain.lower, domain.upper, size)
        return rng.uniform(domain.lower, domain.upper, size)


class LogUniform(Sampler):
    """All orders of magnitude alike."""

    def __init__(self, base: object = _UNSET) -> None:
        _warn_of_base(base)

    def _draw(self, domain: Any, config: object, size: int, rng: Rng) -> Any:
        values = np.exp(rng.uniform(math.log(domain.lower), math.log(domain.upper), size))
        return np.floor(values).astype(int) if isinstance(domain, Integer) else values


class Normal(Sampler):
    """A normal distribution; the domain has no bounds."""

    def __init__(self, mean: float = 0.0, sd: float = 1.0) -> None:
        if not sd > 0:
            raise ValueError(f"sd takes a number above 0; got {sd}")
        self.mean = mean
        self.sd = sd

    def _draw(self, domain: Any, config: object, size: int, rng: Rng) -> Any:
        return rng.normal(self.mean, self.sd, size)


class Grid(Sampler):
    """Each value once; the variant generator walks over them."""

    def sample(
        self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None
    ) -> Any:
        raise RuntimeError("a grid is walked over, not sampled from; use choice() to sample")


class Quantized(Sampler):
    """Another sampler, rounded to multiples of `q` within the bounds."""

    def __init__(self, sampler: Sampler, q: float) -> None:
        self.sampler = sampler
        self.q = q

    def get_sampler(self) -> Sampler:
        """The sampler whose values are rounded."""
        return self.sampler

    def sample(
        self, domain: Any, config: Any = None, size: int = 1, random_state: Any = None
    ) -> Any:
        rng = Rng.of(random_state)
        if isinstance(domain, Integer):
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

    def _indices(self, domain: Any, config: Any, size: int, rng: Rng) -> Any:
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
        """The bound in multiples of q, rounded inwards; an infinite one stays."""
        if not math.isfinite(bound):
            return bound
        scaled = bound / self.q
        nearest = round(scaled)
        return nearest if math.isclose(scaled, nearest) else inwards(scaled)


class Domain:
    """A set of values to draw from."""

    sampler: Sampler | None = None
    default_sampler_cls: type[Sampler] = Uniform

    def cast(self, value: Any) -> Any:
        """The value as the domain's own type."""
        return value

    def set_sampler(self, sampler: Sampler, allow_override: bool = False) -> None:
        """Choose the distribution; it can be chosen once."""
        if self.sampler is not None and not allow_override:
            raise ValueError(
                f"a domain has one sampler; this one has {self.sampler} and was given {sampler}"
            )
        self.sampler = sampler

    def get_sampler(self) -> Sampler:
        """The distribution that was chosen, or the usual one of this domain."""
        return self.sampler or self.default_sampler_cls()

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """One value, or a list of `size`."""
        return self.get_sampler().sample(self, config=config, size=size, random_state=random_state)

    def is_grid(self) -> bool:
        """Whether every value is wanted once."""
        return isinstance(self.sampler, Grid)

    def is_function(self) -> bool:
        """Whether a function of the user's makes the values."""
        return False

    def is_valid(self, value: Any) -> bool:
        """Whether `value` belongs to the domain."""
        raise NotImplementedError

    @property
    def domain_str(self) -> str:
        """The values, for messages."""
        return "(unknown)"

    def _with(self: _D, sampler: Sampler) -> _D:
        new = copy(self)
        new.set_sampler(sampler)
        return new


def _check_step(q: float) -> None:
    if not q > 0:
        raise ValueError(f"q takes a number above 0; got {q!r}")


class _Range(Domain):
    """What floats and integers share."""

    lower: Any
    upper: Any

    def _check_order(self) -> None:
        if self.lower > self.upper:
            raise ValueError(f"the lower bound comes first; got {self.domain_str}")

    def _quantized(self: _D, q: float) -> _D:
        new = copy(self)
        new.set_sampler(Quantized(new.get_sampler(), q), allow_override=True)
        return new

    def loguniform(self: Any, base: object = _UNSET) -> Any:
        """Draw orders of magnitude alike; both bounds are above 0."""
        _warn_of_base(base)
        if not (self.lower > 0 and 0 < self.upper < float("inf")):
            raise ValueError(
                f"loguniform takes bounds above 0 and below infinity; got {self.domain_str}; "
                f"give the values themselves, not their logarithms"
            )
        return self._with(LogUniform())

    def is_valid(self, value: object) -> bool:
        return bool(self.lower <= value <= self.upper)

    @property
    def domain_str(self) -> str:
        return f"({self.lower}, {self.upper})"


class Float(_Range):
    """Real numbers between two bounds; None is no bound."""

    def __init__(self, lower: float | None, upper: float | None) -> None:
        self.lower: Any = float("-inf") if lower is None else lower
        self.upper: Any = float("inf") if upper is None else upper
        self._check_order()

    def cast(self, value: Any) -> float:
        return float(value)

    def uniform(self) -> Float:
        """Draw all values alike."""
        if not (math.isfinite(self.lower) and math.isfinite(self.upper)):
            raise ValueError(f"uniform takes two finite bounds; got {self.domain_str}")
        return self._with(Uniform())

    def normal(self, mean: float = 0.0, sd: float = 1.0) -> Float:
        """Draw from a normal distribution."""
        return self._with(Normal(mean, sd))

    def quantized(self, q: float) -> Float:
        """Round to multiples of `q`, of which the bounds must be."""
        _check_step(q)
        for bound in (self.lower, self.upper):
            if math.isfinite(bound) and not math.isclose(bound / q, round(bound / q)):
                raise ValueError(f"the bound {bound} is not a multiple of q={q}")
        return self._quantized(q)


class Integer(_Range):
    """Whole numbers from `lower` up to, not including, `upper`."""

    def __init__(self, lower: int, upper: int) -> None:
        self.lower = lower
        self.upper = upper
        self._check_order()

    def cast(self, value: Any) -> int:
        return int(value)

    def uniform(self) -> Integer:
        """Draw all values alike."""
        return self._with(Uniform())

    def quantized(self, q: int) -> Integer:
        """Round to multiples of `q`; the upper bound is included then."""
        _check_step(q)
        return self._quantized(q)


class Categorical(Domain):
    """A list of values."""

    def __init__(self, categories: Iterable[object]) -> None:
        if not isinstance(categories, Iterable):
            raise ValueError(f"choice takes a list of values; got {categories!r}")
        self.categories: list[Any] = list(categories)

    def uniform(self) -> Categorical:
        """Draw all values alike."""
        return self._with(Uniform())

    def grid(self) -> Categorical:
        """Take every value once."""
        return self._with(Grid())

    def __len__(self) -> int:
        return len(self.categories)

    def __getitem__(self, item: int) -> Any:
        return self.categories[item]

    def is_valid(self, value: Any) -> bool:
        return value in self.categories

    @property
    def domain_str(self) -> str:
        return f"{self.categories}"


class _CallSampler(BaseSampler):
    """Calls the user's function."""

    def _draw(self, domain: Any, config: object, size: int, rng: Rng) -> Any:
        if not domain.pass_config:
            return [domain.func() for _ in range(size)]
        configs = config if isinstance(config, list) else [config] * size
        return [domain.func(_view(one)) for one in configs]


def _view(config: object) -> Any:
    from skate.tune.search.variant_generator import view

    return view(config) if isinstance(config, Mapping) else config


class Function(Domain):
    """Values made by a function without arguments, or of the config."""

    default_sampler_cls: type[Sampler] = _CallSampler

    def __init__(self, func: Callable[..., object]) -> None:
        self.func = func
        self.pass_config: bool = _binds(func, {})
        if not self.pass_config and not _binds(func):
            raise ValueError(f"sample_from takes a function of 0 or 1 arguments; got {func!r}")

    def is_function(self) -> bool:
        return True

    def is_valid(self, value: Any) -> bool:
        return True

    @property
    def domain_str(self) -> str:
        return f"{self.func}()"


def _binds(func: Callable[..., object], *args: object) -> bool:
    try:
        signature(func).bind(*args)
    except TypeError:
        return False
    return True


def _warn_of_base(base: object) -> None:
    if base is not _UNSET:
        warnings.warn("`base` has no effect on a log-uniform distribution", stacklevel=3)


def sample_from(func: Callable[..., object]) -> Function:
    """Draw by calling a function.

    Args:
        func: Without arguments, or of `config`, which holds the other values.

    Example:
        >>> from skate import tune
        >>> space = {"width": 4, "depth": tune.sample_from(lambda config: config["width"] * 2)}
        >>> def depth(config):
        ...     return {"depth": config["depth"]}
        >>> tuner = tune.Tuner(depth, param_space=space, run_config={"verbose": 0})
        >>> tuner.fit()[0].metrics["depth"]
        8
    """
    return Function(func)


def uniform(lower: float, upper: float) -> Float:
    """Draw a float between two bounds, all alike.

    Args:
        lower: The lower bound.
        upper: The upper bound.

    Example:
        >>> from skate import tune
        >>> 0 <= tune.uniform(0, 1).sample() <= 1
        True
    """
    return Float(lower, upper).uniform()


def quniform(lower: float, upper: float, q: float) -> Float:
    """Draw as `uniform` does, rounded.

    Args:
        lower: The lower bound.
        upper: The upper bound, which is included.
        q: Its values are multiples of this.

    Example:
        >>> from skate import tune
        >>> tune.quniform(0, 1, 0.25).sample() in (0.0, 0.25, 0.5, 0.75, 1.0)
        True
    """
    return Float(lower, upper).uniform().quantized(q)


def loguniform(lower: float, upper: float, base: object = _UNSET) -> Float:
    """Draw a float between two bounds, all orders of magnitude alike.

    Args:
        lower: The lower bound.
        upper: The upper bound.
        base: Has no effect on such a distribution.

    Example:
        >>> from skate import tune
        >>> 1e-4 <= tune.loguniform(1e-4, 1e-1).sample() <= 1e-1
        True
    """
    _warn_of_base(base)
    result: Float = Float(lower, upper).loguniform()
    return result


def qloguniform(lower: float, upper: float, q: float, base: object = _UNSET) -> Float:
    """Draw as `loguniform` does, rounded.

    Args:
        lower: The lower bound.
        upper: The upper bound, which is included.
        q: Its values are multiples of this.
        base: Has no effect.

    Example:
        >>> from skate import tune
        >>> tune.qloguniform(1, 4, 1).sample() in (1.0, 2.0, 3.0, 4.0)
        True
    """
    _warn_of_base(base)
    result: Float = Float(lower, upper).loguniform().quantized(q)
    return result


def choice(categories: Iterable[object]) -> Categorical:
    """Draw one of several values, all alike.

    Args:
        categories: The values.

    Example:
        >>> from skate import tune
        >>> tune.choice(["adam"]).sample()
        'adam'
    """
    return Categorical(categories).uniform()


def randint(lower: int, upper: int) -> Integer:
    """Draw a whole number, all alike.

    Args:
        lower: The lower bound.
        upper: The upper bound, which is not included.

    Example:
        >>> from skate import tune
        >>> tune.randint(0, 3).sample() in (0, 1, 2)
        True
    """
    return Integer(lower, upper).uniform()


def lograndint(lower: int, upper: int, base: object = _UNSET) -> Integer:
    """Draw a whole number, all orders of magnitude alike.

    Args:
        lower: The lower bound.
        upper: The upper bound, which is not included.
        base: Has no effect on such a distribution.

    Example:
        >>> from skate import tune
        >>> 1 <= tune.lograndint(1, 1000).sample() < 1000
        True
    """
    _warn_of_base(base)
    result: Integer = Integer(lower, upper).loguniform()
    return result


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Draw as `randint` does, rounded.

    Args:
        lower: The lower bound.
        upper: The upper bound; with `q` above 1 it is included.
        q: Its values are multiples of this.

    Example:
        >>> from skate import tune
        >>> tune.qrandint(0, 20, 10).sample() in (0, 10, 20)
        True
    """
    return Integer(lower, upper).uniform().quantized(q)


def qlograndint(lower: int, upper: int, q: int, base: object = _UNSET) -> Integer:
    """Draw as `lograndint` does, rounded.

    Args:
        lower: The lower bound.
        upper: The upper bound; with `q` above 1 it is included.
        q: Its values are multiples of this.
        base: Has no effect.
    """
    _warn_of_base(base)
    result: Integer = Integer(lower, upper).loguniform().quantized(q)
    return result


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """Draw a float from a normal distribution.

    Args:
        mean: Its mean.
        sd: Its standard deviation.

    Example:
        >>> from skate import tune
        >>> isinstance(tune.randn(10, 2).sample(), float)
        True
    """
    return Float(None, None).normal(mean, sd)


def qrandn(mean: float, sd: float, q: float) -> Float:
    """Draw as `randn` does, rounded.

    Args:
        mean: The mean.
        sd: The standard deviation.
        q: Its values are multiples of this.
    """
    return Float(None, None).normal(mean, sd).quantized(q)
