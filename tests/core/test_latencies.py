from __future__ import annotations

import random
from collections import Counter

import pytest

from skate._core.latencies import LatencyCounts, added, percentile


def _counted(*times: float) -> Counter[int]:
    counts = LatencyCounts()
    for seconds in times:
        counts.add(seconds)
    return added([counts.counts()])


@pytest.mark.parametrize("percent", [1, 50, 90, 99])
def test_percentiles_are_right_within_an_eighth(percent: int) -> None:
    chance = random.Random(percent)
    times = sorted(chance.lognormvariate(-4, 2) for _ in range(5_000))
    exact = times[len(times) * percent // 100]
    assert percentile(_counted(*times), percent) == pytest.approx(exact, rel=1 / 8)


@pytest.mark.parametrize("seconds", [1e-6, 0.0124, 1.0, 3600.0, 10 * 86400.0])
def test_times_of_any_size_have_a_range(seconds: float) -> None:
    assert percentile(_counted(seconds), 50) == pytest.approx(seconds, rel=1 / 8)


def test_times_beyond_the_ranges_count_as_the_nearest() -> None:
    assert percentile(_counted(0.0, 1e-9), 100) == pytest.approx(1e-6, rel=1 / 4)
    assert percentile(_counted(1e12), 50) == pytest.approx(2**20, rel=1 / 8)


def test_counts_of_many_are_added_and_compared() -> None:
    one, other = LatencyCounts(), LatencyCounts()
    one.add(0.1)
    before = added([one.counts()])
    for _ in range(3):
        one.add(0.1)
        other.add(10.0)
    both = added([one.counts(), other.counts()])
    assert both.total() == 7
    assert percentile(both - before, 50) == pytest.approx(0.1, rel=1 / 8)
    assert percentile(both - before, 99) == pytest.approx(10, rel=1 / 8)


def test_nothing_has_no_percentiles() -> None:
    assert percentile(_counted(), 50) is None
