"""A time budget for everything."""

from __future__ import annotations

import datetime
import time

from skate._run.types import ResultRow
from skate.tune.stopper.stopper import Stopper


class TimeoutStopper(Stopper):
    """End everything after a time.

    The clock starts with the first question, and stands still between a stop and a restore.

    Args:
        timeout: Seconds, or a timedelta.
    """

    def __init__(self, timeout: float | datetime.timedelta) -> None:
        if isinstance(timeout, datetime.timedelta):
            timeout = timeout.total_seconds()
        if isinstance(timeout, bool) or not isinstance(timeout, (int, float)):
            raise ValueError(f"timeout takes seconds or a timedelta; got {timeout!r}")
        self._left = float(timeout)
        self._last_check: float | None = None

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        return False

    @property
    def seconds_left(self) -> float:
        """What is left of the budget."""
        spent = 0.0 if self._last_check is None else time.monotonic() - self._last_check
        return self._left - spent

    def stop_all(self) -> bool:
        self._left = self.seconds_left
        self._last_check = time.monotonic()
        return self._left <= 0

    def __getstate__(self) -> dict[str, object]:
        return {"_left": self.seconds_left, "_last_check": None}
