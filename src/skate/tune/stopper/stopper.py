"""When trials, and the whole search, are over."""

from __future__ import annotations

from skate._run.types import ResultRow


class Stopper:
    """Decide with every result whether its trial, or all, are over: the base of all stoppers."""

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        """Return whether the trial is to end.

        Args:
            trial_id: The trial's id.
            result: What it has reported.
        """
        raise NotImplementedError

    def stop_all(self) -> bool:
        """Return whether all trials are to end, and no more are to begin."""
        raise NotImplementedError


class CombinedStopper(Stopper):
    """End what any of several stoppers would end.

    Args:
        stoppers: Those.

    Example:
        >>> from skate.tune.stopper import CombinedStopper, MaximumIterationStopper, TimeoutStopper
        >>> stop = CombinedStopper(MaximumIterationStopper(10), TimeoutStopper(3600))
        >>> stop("trial", {"loss": 1.0}), stop.stop_all()
        (False, False)
    """

    def __init__(self, *stoppers: Stopper) -> None:
        self._stoppers = stoppers

    def __call__(self, trial_id: str, result: ResultRow) -> bool:
        # each of them has to see every result
        return any([stopper(trial_id, result) for stopper in self._stoppers])  # noqa: C419

    def stop_all(self) -> bool:
        return any(stopper.stop_all() for stopper in self._stoppers)
