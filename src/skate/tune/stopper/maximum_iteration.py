"""A most number of results per trial."""

from __future__ import annotations

from collections import Counter

from skate._run.types import ResultRow
from skate.tune.stopper.stopper import Stopper


class MaximumIterationStopper(Stopper):
    """End a trial after a number of results.

    Args:
        max_iter: With which result it ends.
    """

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._counts: Counter[str] = Counter()

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        self._counts[trial_id] += 1
        return self._counts[trial_id] >= self._max_iter

    def stop_all(self) -> bool:
        return False
