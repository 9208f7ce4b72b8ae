"""Stop-watches. The fastest of several repeats counts: the rest is noise from the neighbours."""

from __future__ import annotations

import time
from collections.abc import Callable


def timed(work: Callable[[], object]) -> float:
    """Seconds of one run."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def fastest(work: Callable[[], object], budget: float, least: int = 3) -> float:
    """Seconds of the fastest run, after one to warm up; repeats until the budget is used."""
    work()
    end = time.perf_counter() + budget
    runs = [timed(work) for _ in range(least)]
    while time.perf_counter() < end:
        runs.append(timed(work))
    return min(runs)


def rate(work: Callable[[], object], units: int, budget: float) -> float:
    """Units per second of the fastest run."""
    return units / fastest(work, budget)
