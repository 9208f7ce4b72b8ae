"""The stopper that never stops."""

from __future__ import annotations

from typing import Any

from skate.tune.stopper.stopper import Stopper


class NoopStopper(Stopper):
    """Never ends anything."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        return False

    def stop_all(self) -> bool:
        return False
