"""Stop conditions in all spellings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.tune.execution.criteria import reached
from skate.tune.stopper.function_stopper import FunctionStopper
from skate.tune.stopper.stopper import CombinedStopper, Stopper
from skate.tune.stopper.timeout import TimeoutStopper


class DictStopper(Stopper):
    """Ends a trial when a metric has come to its value. It needs no memory, so it can also
    decide inside of the trial."""

    def __init__(self, criteria: Mapping[str, Any]) -> None:
        self.criteria = dict(criteria)

    def __call__(self, trial_id: str, result: Mapping[str, Any]) -> bool:
        return reached(self.criteria, result)

    def stop_all(self) -> bool:
        return False


def as_stopper(stop: Any, time_budget_s: Any = None) -> Stopper | None:
    """The stopper for what a user may write: a dictionary, function, stopper, or list of them."""
    found = _one(stop)
    if time_budget_s is None:
        return found
    budget = TimeoutStopper(time_budget_s)
    return budget if found is None else CombinedStopper(found, budget)


def _one(stop: Any) -> Stopper | None:
    if stop is None or (isinstance(stop, Mapping) and not stop):
        return None
    if isinstance(stop, Mapping):
        return DictStopper(stop)
    if isinstance(stop, Stopper):
        return stop
    if isinstance(stop, (list, tuple)):
        if not all(isinstance(one, Stopper) for one in stop):
            raise ValueError(f"a list of stop conditions takes Stoppers only; got {stop!r}")
        return CombinedStopper(*stop)
    if FunctionStopper.is_valid_function(stop):
        return FunctionStopper(stop)
    raise ValueError(
        f"stop takes a dictionary, a function of (trial_id, result), a Stopper, or a list of "
        f"Stoppers; got {stop!r}"
    )
