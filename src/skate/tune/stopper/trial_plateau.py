"""A trial that no longer changes."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict, deque
from typing import Any

from skate._run.types import ResultRow
from skate.tune.stopper.stopper import Stopper


class TrialPlateauStopper(Stopper):
    """End a trial when the last values of a metric hardly vary.

    Args:
        metric: Which metric.
        std: Their standard deviation, below which it ends.
        num_results: How many values.
        grace_period: How many results a trial has in any case.
        metric_threshold: The value that the metric must have passed, in the direction of `mode`.
        mode: Whether that is from below, "max", or from above, "min".
    """

    def __init__(
        self,
        metric: str,
        std: float = 0.01,
        num_results: int = 4,
        grace_period: int = 4,
        metric_threshold: float | None = None,
        mode: str | None = None,
    ) -> None:
        if metric_threshold is not None and mode not in ("min", "max"):
            raise ValueError(f"with a metric_threshold, mode takes 'min' or 'max'; got {mode!r}")
        self._metric = metric
        self._std = std
        self._num_results = num_results
        self._grace_period = grace_period
        self._metric_threshold = metric_threshold
        self._mode = mode
        self._counts: Counter[str] = Counter()
        self._values: defaultdict[str, deque[Any]] = defaultdict(deque)

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        value = result.get(self._metric)
        values = self._values[trial_id]
        values.append(value)
        if len(values) > self._num_results:
            values.popleft()
        self._counts[trial_id] += 1
        if self._counts[trial_id] < self._grace_period or len(values) < self._num_results:
            return False
        return self._beyond_threshold(value) and _spread(values) < self._std

    def _beyond_threshold(self, value: Any) -> bool:
        if self._metric_threshold is None:
            return True
        if self._mode == "min":
            return bool(value <= self._metric_threshold)
        return bool(value >= self._metric_threshold)

    def stop_all(self) -> bool:
        return False


def _spread(values: Any) -> float:
    """Compute the standard deviation; infinite where there is none."""
    try:
        return statistics.pstdev(float(value) for value in values)
    except (TypeError, ValueError, AttributeError):
        return float("inf")
