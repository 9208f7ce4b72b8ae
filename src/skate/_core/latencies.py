"""How long things took: counted in ranges that widen with the time, for percentiles.

A range begins at most an eighth below its end, whether it is of microseconds or of hours, so that
a percentile is right within that. The number of ranges is fixed: so is what they cost.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from math import frexp, ldexp

Counts = list[tuple[int, int]]  # the places of ranges, and how many were in each

_PER_DOUBLING = 8
_LEAST_SECONDS = 2.0**-20  # about a microsecond; what took less counts as this
_LEAST_EXPONENT = -19  # as `frexp` has it
_RANGES = 40 * _PER_DOUBLING  # up to 2**20 seconds, twelve days; what took longer counts as this


class LatencyCounts:
    """Counts times in ranges."""

    __slots__ = ("_counts",)

    def __init__(self) -> None:
        self._counts = [0] * _RANGES

    def add(self, seconds: float) -> None:
        """Count one time."""
        mantissa, exponent = frexp(seconds if seconds > _LEAST_SECONDS else _LEAST_SECONDS)
        place = (exponent - _LEAST_EXPONENT - 1) * _PER_DOUBLING
        place += int(mantissa * (2 * _PER_DOUBLING))
        self._counts[place if place < _RANGES else _RANGES - 1] += 1

    def counts(self) -> Counts:
        """Return the ranges that are not empty, for others to add up and compare."""
        return [(place, count) for place, count in enumerate(self._counts) if count]


def added(all_counts: Iterable[Counts]) -> Counter[int]:
    """Return how many were in each range altogether."""
    total: Counter[int] = Counter()
    for counts in all_counts:
        total.update(dict(counts))
    return total


def percentile(counts: Counter[int], percent: float) -> float | None:
    """Return the seconds that so many percent took at most; None if nothing was counted."""
    wanted = counts.total() * percent / 100
    below = 0
    for place in sorted(counts):
        count = counts[place]
        if count and below + count >= wanted:
            begin, end = _start(place), _start(place + 1)
            return begin + (end - begin) * (wanted - below) / count
        below += count
    return None


def _start(place: int) -> float:
    """Return the seconds with which a range begins."""
    doublings, eighths = divmod(place, _PER_DOUBLING)
    mantissa = (_PER_DOUBLING + eighths) / (2 * _PER_DOUBLING)
    return ldexp(mantissa, doublings + _LEAST_EXPONENT)
