"""A most number of results per trial."""

from __future__ import annotations

from collections import Counter
from typing import Any

from skate.tune.stopper.stopper import Stopper


class MaximumIterationStopper(Stopper):
    """Ends a trial with its `max_iter`-th result."""

    def __init__(self, max_iter: int) -> None:
        self._max_iter = max_iter
        self._counts: Counter[str] = Counter()

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        self._counts[trial_id] += 1
        return self._counts[trial_id] >= self._max_iter

    def stop_all(self) -> bool:
        return False
