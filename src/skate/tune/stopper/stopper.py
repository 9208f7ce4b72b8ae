"""When trials, and the whole search, are over."""

from __future__ import annotations

from typing import Any


class Stopper:
    """Called with every result: True ends the trial. `stop_all` ends everything."""

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Whether the trial is to end."""
        raise NotImplementedError

    def stop_all(self) -> bool:
        """Whether all trials are to end, and no more are to begin."""
        raise NotImplementedError


class CombinedStopper(Stopper):
    """Ends what any of several stoppers would end."""

    def __init__(self, *stoppers: Stopper) -> None:
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        # each of them has to see every result
        return any([stopper(trial_id, result) for stopper in self._stoppers])  # noqa: C419

    def stop_all(self) -> bool:
        return any(stopper.stop_all() for stopper in self._stoppers)
