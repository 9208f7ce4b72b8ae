"""Stop conditions in all spellings."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from skate._run.types import MetricsLike
from skate._run.values import lookup, reached
from skate.tune.stopper.function_stopper import FunctionStopper
from skate.tune.stopper.stopper import CombinedStopper, Stopper
from skate.tune.stopper.timeout import TimeoutStopper

logger = logging.getLogger(__name__)


class DictStopper(Stopper):
    """Ends a trial when a metric has come to its value. It needs no memory, so it can also
    decide inside of the trial."""

    def __init__(self, criteria: Mapping[str, object]) -> None:
        self.criteria = dict(criteria)
        self._looked_for = False

    def __call__(self, trial_id: str, result: MetricsLike) -> bool:
        if not self._looked_for:
            self._looked_for = True
            self._warn_of_missing(result)
        return reached(self.criteria, result)

    def _warn_of_missing(self, result: MetricsLike) -> None:
        missing = [name for name in self.criteria if lookup(result, name) is None]
        if missing:
            logger.warning(
                "stop names %s, which the first result does not have: a trial that never reports "
                "it is not stopped by it. The result has %s", missing, sorted(result),
            )  # fmt: skip

    def stop_all(self) -> bool:
        return False


def as_stopper(stop: object, time_budget_s: Any = None) -> Stopper | None:
    """Make a stopper of what a user may write: a dictionary, function, stopper, list of them."""
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
