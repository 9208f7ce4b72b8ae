"""A search that no longer gets better."""

from __future__ import annotations

import bisect
import statistics

from skate._run.types import ResultRow
from skate.tune.stopper.stopper import Stopper


class ExperimentPlateauStopper(Stopper):
    """End everything when the best values of a metric hardly vary any more.

    Args:
        metric: Which metric.
        std: The standard deviation of these values, up to which it counts as a plateau.
        top: How many values.
        mode: Whether smaller values are better, "min", or larger ones, "max".
        patience: How many results in a row may be such before all ends.
    """

    def __init__(
        self,
        metric: str,
        std: object = 0.001,
        top: object = 10,
        mode: str = "min",
        patience: object = 0,
    ) -> None:
        if mode not in ("min", "max"):
            raise ValueError(f"mode takes 'min' or 'max'; got {mode!r}")
        if not isinstance(top, int) or top <= 1:
            raise ValueError(f"top takes a number above 1; got {top!r}")
        if not isinstance(patience, int) or patience < 0:
            raise ValueError(f"patience takes a number from 0; got {patience!r}")
        if not isinstance(std, float) or std <= 0:
            raise ValueError(f"std takes a float above 0; got {std!r}")
        self._metric = metric
        self._std = std
        self._top = top
        self._mode = mode
        self._patience = patience
        self._iterations = 0
        self._top_values: list[float] = []

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        bisect.insort(self._top_values, float(result[self._metric]))
        if len(self._top_values) > self._top:
            self._top_values.pop(-1 if self._mode == "min" else 0)
        self._iterations = self._iterations + 1 if self.has_plateaued() else 0
        return self.stop_all()

    def has_plateaued(self) -> bool:
        """Return whether the best values are all alike."""
        full = len(self._top_values) == self._top
        return full and statistics.pstdev(self._top_values) <= self._std

    def stop_all(self) -> bool:
        return self.has_plateaued() and self._iterations >= self._patience
