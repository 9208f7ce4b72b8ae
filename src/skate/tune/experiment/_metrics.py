"""The course of each metric of a trial, in constant space."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skate._run.types import MetricsLike
from skate._run.values import flatten, plain
from skate.tune.result import DEBUG_METRICS

_RECENT_VALUES = 10
_SKIPPED = frozenset((*DEBUG_METRICS, "done"))


class MetricSummary:
    """One metric: extremes, mean, and the last ten values."""

    __slots__ = ("_recent", "count", "last", "maximum", "minimum", "total")

    def __init__(self) -> None:
        self.count = 0
        self.total = 0.0
        self.minimum = float("inf")
        self.maximum = float("-inf")
        self.last: float = float("nan")
        self._recent: list[float] | None = None  # while there is one value at most

    def add(self, value: float) -> None:
        if self.count:
            self._remember(value)
        self.count += 1
        self.total = self.total + value if self.count > 1 else value
        if value < self.minimum:
            self.minimum = value
        if value > self.maximum:
            self.maximum = value
        self.last = value

    def _remember(self, value: float) -> None:
        """Note a value after the first: many trials have one, and a list for each of its metrics
        would be most of what they need."""
        recent = self._recent or [self.last]
        self._recent = [*recent[1 - _RECENT_VALUES :], value]

    @property
    def recent(self) -> list[float]:
        """The last ten values."""
        return self._recent or [self.last] * min(self.count, 1)

    def summary(self) -> dict[str, float]:
        """Return the numbers by the names of the scopes of `get_best_trial`."""
        recent = self.recent
        nan = float("nan")
        if recent and self.minimum > self.maximum:  # nothing but NaN
            return dict.fromkeys(SCOPES, nan)
        return {
            "max": self.maximum,
            "min": self.minimum,
            "avg": self.total / self.count,
            "last": self.last,
            "last-5-avg": sum(recent[-5:]) / len(recent[-5:]),
            "last-10-avg": sum(recent) / len(recent),
        }

    def state(self) -> list[Any]:
        """Return what the state file keeps, from which `of` makes another one."""
        return [self.count, self.total, self.minimum, self.maximum, *self.recent]

    @classmethod
    def of(cls, state: list[Any]) -> MetricSummary:
        """Make a summary from what the state file keeps.

        Raises:
            TypeError: If these are no numbers; others may have written the file.
        """
        if not all(isinstance(number, (int, float)) for number in state):
            raise TypeError(f"the course of a metric is a list of numbers; got {state!r}")
        course = cls()
        course.count, course.total, course.minimum, course.maximum, *recent = state
        course._recent = recent if len(recent) > 1 else None
        course.last = recent[-1] if recent else float("nan")
        return course


SCOPES = ("max", "min", "avg", "last", "last-5-avg", "last-10-avg")


class MetricHistory(Mapping[str, dict[str, float]]):
    """`courses["loss"]["min"]` for all metrics of a trial."""

    def __init__(self) -> None:
        self._courses: dict[str, MetricSummary] = {}

    def add(self, result: MetricsLike) -> None:
        for name, value in result.items():
            if name in _SKIPPED:
                continue
            kind = type(value)
            if kind is float or kind is int:
                self._one(name, value)
            elif isinstance(value, Mapping):
                for inner, leaf in flatten(value, f"{name}/"):
                    self._add_plain(inner, leaf)
            elif kind is not str and kind is not bool:
                self._add_plain(name, value)

    def _add_plain(self, name: str, value: object) -> None:
        number = plain(value)
        if isinstance(number, (int, float)) and not isinstance(number, bool):
            self._one(name, number)

    def _one(self, name: str, value: float) -> None:
        course = self._courses.get(name)
        if course is None:
            course = self._courses[name] = MetricSummary()
        course.add(value)

    def __getitem__(self, name: str) -> dict[str, float]:
        return self._courses[name].summary()

    def __iter__(self) -> Iterator[str]:
        return iter(self._courses)

    def __len__(self) -> int:
        return len(self._courses)

    def state(self) -> dict[str, list[Any]]:
        return {name: course.state() for name, course in self._courses.items()}

    @classmethod
    def of_results(cls, results: Iterable[MetricsLike]) -> MetricHistory:
        courses = cls()
        for result in results:
            courses.add(result)
        return courses

    @classmethod
    def of(cls, state: Mapping[str, list[object]]) -> MetricHistory:
        courses = cls()
        courses._courses = {name: MetricSummary.of(saved) for name, saved in state.items()}
        return courses
