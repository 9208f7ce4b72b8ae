"""The stopper that never stops."""

from __future__ import annotations

from skate._run.types import ResultRow
from skate.tune.stopper.stopper import Stopper


class NoopStopper(Stopper):
    """Never ends anything."""

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        return False

    def stop_all(self) -> bool:
        return False
