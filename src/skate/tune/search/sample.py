"""Search spaces: domains of values, and how to draw from them.

A domain (`Float`, `Integer`, `Categorical`, `Function`) knows its values; its sampler (`Uniform`,
`LogUniform`, `Normal`, `Quantized`, `Grid`) how they are distributed. Searchers translate both.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from inspect import signature
from typing import Any, TypeVar

from skate._core.public_names import name_publicly
from skate.tune.search._samplers import (
    UNSET,
    BaseSampler,
    Grid,
    LogUniform,
    Normal,
    Quantized,
    Rng,
    Sampler,
    Uniform,
    warn_of_base,
)

__all__ = [
    "BaseSampler",
    "Categorical",
    "Domain",
    "Float",
    "Function",
    "Grid",
    "Integer",
    "LogUniform",
    "Normal",
    "Quantized",
    "Rng",
    "Sampler",
    "Uniform",
    "choice",
    "lograndint",
    "loguniform",
    "qlograndint",
    "qloguniform",
    "qrandint",
    "qrandn",
    "quniform",
    "randint",
    "randn",
    "sample_from",
    "uniform",
]

_D = TypeVar("_D", bound="Domain")


class Domain:
    """A set of values to draw from."""

    sampler: Sampler | None = None
    default_sampler_cls: type[Sampler] = Uniform
    is_whole: bool = False  # whether its values are whole numbers

    def cast(self, value: Any) -> Any:
        """Return the value as the domain's own type."""
        return value

    def set_sampler(self, sampler: Sampler, allow_override: bool = False) -> None:
        """Choose the distribution; it can be chosen once."""
        if self.sampler is not None and not allow_override:
            raise ValueError(
                f"a domain has one sampler; this one has {self.sampler} and was given {sampler}"
            )
        self.sampler = sampler

    def get_sampler(self) -> Sampler:
        """Return the distribution that was chosen, or the usual one of this domain."""
        return self.sampler or self.default_sampler_cls()

    def sample(self, config: Any = None, size: int = 1, random_state: Any = None) -> Any:
        """Draw one value, or a list of `size`."""
        return self.get_sampler().sample(self, config=config, size=size, random_state=random_state)

    def is_grid(self) -> bool:
        """Return whether every value is wanted once."""
        return isinstance(self.sampler, Grid)

    def is_function(self) -> bool:
        """Return whether a function of the user's makes the values."""
        return False

    def is_valid(self, value: Any) -> bool:
        """Return whether `value` belongs to the domain."""
        raise NotImplementedError

    @property
    def domain_str(self) -> str:
        """The values, for messages."""
        return "(unknown)"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.domain_str}>"

    def _drawn_evenly(self, size: int, rng: Rng) -> Any:
        raise TypeError(f"Uniform cannot draw from {type(self).__name__}")

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
        if not (hasattr(self.lower, "__float__") and hasattr(self.upper, "__float__")):
            raise TypeError(f"the bounds are two numbers; got ({self.lower!r}, {self.upper!r})")
        if self.lower > self.upper:
            raise ValueError(f"the lower bound comes first; got {self.domain_str}")

    def _quantized(self: _D, q: float) -> _D:
        new = copy(self)
        new.set_sampler(Quantized(new.get_sampler(), q), allow_override=True)
        return new

    def loguniform(self: Any, base: object = UNSET) -> Any:
        """Draw orders of magnitude alike; both bounds are above 0."""
        warn_of_base(base)
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

    def _drawn_evenly(self, size: int, rng: Rng) -> Any:
        return rng.uniform(self.lower, self.upper, size)

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

    is_whole: bool = True

    def __init__(self, lower: int, upper: int) -> None:
        self.lower = lower
        self.upper = upper
        self._check_order()

    def cast(self, value: Any) -> int:
        return int(value)

    def _drawn_evenly(self, size: int, rng: Rng) -> Any:
        return rng.integers(self.lower, self.upper, size)

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
        if not self.categories:
            raise ValueError("choice takes a list of at least one value; got none")

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

    def is_valid(self, value: object) -> bool:
        return value in self.categories

    def _drawn_evenly(self, size: int, rng: Rng) -> Any:
        return [self.categories[index] for index in rng.choice(len(self), size)]

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

    def is_valid(self, value: object) -> bool:
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

    Returns:
        The domain, for a value of `param_space`.

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

    Returns:
        The domain, for a value of `param_space`.

    Example:
        >>> from skate import tune
        >>> tune.quniform(0, 1, 0.25).sample() in (0.0, 0.25, 0.5, 0.75, 1.0)
        True
    """
    return Float(lower, upper).uniform().quantized(q)


def loguniform(lower: float, upper: float, base: object = UNSET) -> Float:
    """Draw a float between two bounds, all orders of magnitude alike.

    Args:
        lower: The lower bound.
        upper: The upper bound.
        base: Has no effect on such a distribution.

    Returns:
        The domain, for a value of `param_space`.

    Example:
        >>> from skate import tune
        >>> 1e-4 <= tune.loguniform(1e-4, 1e-1).sample() <= 1e-1
        True
    """
    warn_of_base(base)
    result: Float = Float(lower, upper).loguniform()
    return result


def qloguniform(lower: float, upper: float, q: float, base: object = UNSET) -> Float:
    """Draw as `loguniform` does, rounded.

    Args:
        lower: The lower bound.
        upper: The upper bound, which is included.
        q: Its values are multiples of this.
        base: Has no effect.

    Returns:
        The domain, for a value of `param_space`.

    Example:
        >>> from skate import tune
        >>> tune.qloguniform(1, 4, 1).sample() in (1.0, 2.0, 3.0, 4.0)
        True
    """
    warn_of_base(base)
    result: Float = Float(lower, upper).loguniform().quantized(q)
    return result


def choice(categories: Iterable[object]) -> Categorical:
    """Draw one of several values, all alike.

    Args:
        categories: The values.

    Returns:
        The domain, for a value of `param_space`.

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

    Returns:
        The domain, for a value of `param_space`.

    Example:
        >>> from skate import tune
        >>> tune.randint(0, 3).sample() in (0, 1, 2)
        True
    """
    return Integer(lower, upper).uniform()


def lograndint(lower: int, upper: int, base: object = UNSET) -> Integer:
    """Draw a whole number, all orders of magnitude alike.

    Args:
        lower: The lower bound.
        upper: The upper bound, which is not included.
        base: Has no effect on such a distribution.

    Returns:
        The domain, for a value of `param_space`.

    Example:
        >>> from skate import tune
        >>> 1 <= tune.lograndint(1, 1000).sample() < 1000
        True
    """
    warn_of_base(base)
    result: Integer = Integer(lower, upper).loguniform()
    return result


def qrandint(lower: int, upper: int, q: int = 1) -> Integer:
    """Draw as `randint` does, rounded.

    Args:
        lower: The lower bound.
        upper: The upper bound; with `q` above 1 it is included.
        q: Its values are multiples of this.

    Returns:
        The domain, for a value of `param_space`.

    Example:
        >>> from skate import tune
        >>> tune.qrandint(0, 20, 10).sample() in (0, 10, 20)
        True
    """
    return Integer(lower, upper).uniform().quantized(q)


def qlograndint(lower: int, upper: int, q: int, base: object = UNSET) -> Integer:
    """Draw as `lograndint` does, rounded.

    Args:
        lower: The lower bound.
        upper: The upper bound; with `q` above 1 it is included.
        q: Its values are multiples of this.
        base: Has no effect.

    Returns:
        The domain, for a value of `param_space`.
    """
    warn_of_base(base)
    result: Integer = Integer(lower, upper).loguniform().quantized(q)
    return result


def randn(mean: float = 0.0, sd: float = 1.0) -> Float:
    """Draw a float from a normal distribution.

    Args:
        mean: Its mean.
        sd: Its standard deviation.

    Returns:
        The domain, for a value of `param_space`.

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

    Returns:
        The domain, for a value of `param_space`.
    """
    return Float(None, None).normal(mean, sd).quantized(q)


name_publicly(__name__)
