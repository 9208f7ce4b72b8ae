"""Counters, gauges and histograms of your own, in this process.

Values are kept in memory; `collect()` gives them in the Prometheus text format. Metrics of the
same name in one process share their values.
"""

from __future__ import annotations

import re
import threading
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from numbers import Real
from typing import Any, TypeVar

from skate._core.argument_checks import mapping, text
from skate._core.measurements import (
    Family,
    Sample,
    announce_measurements,
    histogram_samples,
    prometheus_text,
)

_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

Tags = tuple[tuple[str, str], ...]
MetricT = TypeVar("MetricT", bound="Metric")

_lock = threading.Lock()
_families: dict[str, _Family] = {}


class _Family:
    """Everything recorded under one name."""

    def __init__(self, kind: str, description: str, boundaries: tuple[float, ...]) -> None:
        self.kind = kind
        self.description = description
        self.boundaries = boundaries
        self.values: dict[Tags, float] = {}
        self.buckets: dict[Tags, list[int]] = {}


class Metric:
    """Record numbers under a name; the base of counters, gauges and histograms.

    Args:
        name: The name, by which monitoring finds it.
        description: What it counts.
        tag_keys: The names of the tags that records may carry.
    """

    _kind: str

    def __init__(
        self, name: str, description: str = "", tag_keys: tuple[str, ...] | None = None
    ) -> None:
        self._name = name
        self._description = description
        self._tag_keys = _checked_keys(tag_keys or ())
        self._default_tags: dict[str, str] = {}
        self._discarded = _is_discarded(name)

    def set_default_tags(self: MetricT, default_tags: dict[str, str]) -> MetricT:
        """Set tags that every record carries unless it says otherwise.

        Args:
            default_tags: Values by the names of tags, which are among `tag_keys`.

        Returns:
            The metric itself.

        Raises:
            ValueError: If a name is not among `tag_keys`.
        """
        mapping("default_tags", default_tags)
        unknown = [key for key in default_tags if key not in self._tag_keys]
        if unknown:
            raise ValueError(f"unknown tag keys {unknown}; {self._name} has {self._tag_keys}")
        _check_values(default_tags)
        self._default_tags = default_tags
        return self

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tag keys and default tags."""
        return {
            "name": self._name,
            "description": self._description,
            "tag_keys": self._tag_keys,
            "default_tags": self._default_tags,
        }

    def _record(
        self,
        value: float,
        tags: dict[str, str] | None,
        change: Callable[[_Family, Tags, float], None],
    ) -> None:
        if not isinstance(value, (int, float)):
            raise TypeError(f"the value must be an int or a float; got {value!r}")
        key = self._tags(mapping("tags", tags))
        if self._discarded:
            return
        with _lock:
            change(self._family(), key, value)

    def _tags(self, tags: Mapping[str, str]) -> Tags:
        _check_values(tags)
        merged = {**self._default_tags, **tags}
        missing = [key for key in self._tag_keys if key not in merged]
        if missing:
            raise ValueError(
                f"no value for the tag keys {missing} of {self._name}: give tags={{...}} or "
                "use set_default_tags"
            )
        return tuple(sorted(merged.items()))

    def _family(self) -> _Family:
        family = _families.get(self._name)
        if family is None:
            family = _families[self._name] = _Family(
                self._kind, self._description, self._boundaries()
            )
        if family.kind != self._kind or family.boundaries != self._boundaries():
            raise ValueError(
                f"{self._name!r} is a {family.kind} with boundaries {family.boundaries} in this "
                f"process already; it cannot also be a {self._kind} with {self._boundaries()}"
            )
        return family

    def _boundaries(self) -> tuple[float, ...]:
        return ()

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuilt, (type(self), self._arguments(), self._default_tags)

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self._tag_keys


class Counter(Metric):
    """Count something that only grows.

    Args:
        name: The name, by which monitoring finds it.
        description: What it counts.
        tag_keys: The names of the tags that records may carry.

    Example:
        >>> from skate.util.metrics import Counter
        >>> Counter("requests_seen", description="Requests that came.").inc()
    """

    _kind = "counter"

    def inc(self, value: float = 1.0, tags: dict[str, str] | None = None) -> None:
        """Add to the count.

        Args:
            value: How much; greater than 0.
            tags: Values by the names of tags, beside the default ones.

        Raises:
            ValueError: If `value` is not greater than 0.
        """
        self._record(value, tags, _grow)


class Gauge(Metric):
    """Show a number that goes up and down.

    Args:
        name: The name, by which monitoring finds it.
        description: What it shows.
        tag_keys: The names of the tags that records may carry.

    Example:
        >>> from skate.util.metrics import Gauge
        >>> Gauge("queue_length", tag_keys=("queue",)).set(3, tags={"queue": "jobs"})
    """

    _kind = "gauge"

    def set(self, value: float | None, tags: dict[str, str] | None = None) -> None:
        """Make a number the current one.

        Args:
            value: The number; None is no value and changes nothing.
            tags: Values by the names of tags, beside the default ones.
        """
        if value is not None:
            self._record(value, tags, _replace)


class Histogram(Metric):
    """Count how often values fall into each of some ranges.

    Args:
        name: The name, by which monitoring finds it.
        description: What is observed.
        boundaries: The upper limits of the ranges, ascending and greater than 0; one more range
            takes what is above the last.
        tag_keys: The names of the tags that records may carry.

    Example:
        >>> from skate.util.metrics import Histogram
        >>> Histogram("seconds", boundaries=[0.1, 1.0]).observe(0.3)
    """

    _kind = "histogram"

    def __init__(
        self,
        name: str,
        description: str = "",
        boundaries: list[float] | None = None,
        tag_keys: tuple[str, ...] | None = None,
    ) -> None:
        super().__init__(name, description, tag_keys)
        self.boundaries: list[float] = _checked_boundaries(boundaries)

    def observe(self, value: float, tags: dict[str, str] | None = None) -> None:
        """Count a value in its range.

        Args:
            value: The value.
            tags: Values by the names of tags, beside the default ones.
        """
        self._record(value, tags, _count)

    @property
    def info(self) -> dict[str, Any]:
        """Name, description, tag keys, default tags and boundaries."""
        return {**super().info, "boundaries": self.boundaries}

    def _boundaries(self) -> tuple[float, ...]:
        return tuple(self.boundaries)

    def _arguments(self) -> tuple[Any, ...]:
        return self._name, self._description, self.boundaries, self._tag_keys


def _rebuilt(cls: type[Metric], arguments: tuple[Any, ...], tags: dict[str, str]) -> Metric:
    return cls(*arguments).set_default_tags(tags)


def _grow(family: _Family, tags: Tags, value: float) -> None:
    if value <= 0:
        raise ValueError(f"a counter grows by more than 0; got {value}")
    _add(family, tags, value)


def _add(family: _Family, tags: Tags, value: float) -> None:
    family.values[tags] = family.values.get(tags, 0.0) + value


def _replace(family: _Family, tags: Tags, value: float) -> None:
    family.values[tags] = value


def _count(family: _Family, tags: Tags, value: float) -> None:
    _add(family, tags, value)
    counts = family.buckets.setdefault(tags, [0] * (len(family.boundaries) + 1))
    counts[bisect_left(family.boundaries, value)] += 1


def collect() -> str:
    """Return all values of this process in the Prometheus text format."""
    return prometheus_text(_described())


def _described(_: object = None) -> list[Family]:
    with _lock:
        return [
            Family(name, family.kind, family.description, list(_samples(family)))
            for name, family in _families.items()
        ]


def _samples(family: _Family) -> Iterator[Sample]:
    for tags, value in family.values.items():
        if family.kind == "histogram":
            counts = family.buckets[tags]
            yield from histogram_samples(dict(tags), family.boundaries, counts, value)
        else:
            yield Sample("_total" if family.kind == "counter" else "", dict(tags), value)


announce_measurements(collect, _described)


def _is_discarded(name: str) -> bool:
    text("name", name, "the name of a metric")
    if _NAME.fullmatch(name):
        return False
    warnings.warn(
        f"{name!r} is not a valid metric name, so nothing will be recorded: use letters, digits "
        "and underscores, and no digit at the start",
        UserWarning,
        stacklevel=3,
    )
    return True


def _checked_keys(keys: object) -> tuple[str, ...]:
    if not isinstance(keys, tuple) or not all(isinstance(key, str) for key in keys):
        raise TypeError(f"tag_keys must be a tuple of strings; got {keys!r}")
    return keys


def _check_values(tags: Mapping[str, str]) -> None:
    for key, value in tags.items():
        if not isinstance(value, str):
            raise TypeError(f"tag values are strings; {key!r} got {value!r}")


def _checked_boundaries(boundaries: list[float] | None) -> list[float]:
    given = list(boundaries) if isinstance(boundaries, (list, tuple)) else []
    numbers = all(isinstance(bound, Real) for bound in given)
    if not given or not numbers or given[0] <= 0 or any(a >= b for a, b in pairwise(given)):
        raise ValueError(
            "boundaries must be a non-empty list of ascending numbers above 0, like "
            f"[0.1, 1, 10]; got {boundaries!r}"
        )
    return given
