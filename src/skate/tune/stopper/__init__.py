"""When trials, and the whole search, are over."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.tune.stopper.experiment_plateau import ExperimentPlateauStopper
    from skate.tune.stopper.function_stopper import FunctionStopper
    from skate.tune.stopper.maximum_iteration import MaximumIterationStopper
    from skate.tune.stopper.noop import NoopStopper
    from skate.tune.stopper.stopper import CombinedStopper, Stopper
    from skate.tune.stopper.timeout import TimeoutStopper
    from skate.tune.stopper.trial_plateau import TrialPlateauStopper
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "CombinedStopper",
    "ExperimentPlateauStopper",
    "FunctionStopper",
    "MaximumIterationStopper",
    "NoopStopper",
    "Stopper",
    "TimeoutStopper",
    "TrialPlateauStopper",
]
