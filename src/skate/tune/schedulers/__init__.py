"""Which trials go on, which stop, and which run next."""

from __future__ import annotations

from skate.tune.schedulers.async_hyperband import ASHAScheduler, AsyncHyperBandScheduler
from skate.tune.schedulers.hb_bohb import HyperBandForBOHB
from skate.tune.schedulers.hyperband import HyperBandScheduler
from skate.tune.schedulers.median_stopping_rule import MedianStoppingRule
from skate.tune.schedulers.pb2 import PB2
from skate.tune.schedulers.pbt import PopulationBasedTraining
from skate.tune.schedulers.pbt_replay import PopulationBasedTrainingReplay
from skate.tune.schedulers.resource_changing_scheduler import ResourceChangingScheduler
from skate.tune.schedulers.trial_scheduler import FIFOScheduler, TrialScheduler

SCHEDULERS: dict[str, type[TrialScheduler]] = {
    "fifo": FIFOScheduler,
    "async_hyperband": AsyncHyperBandScheduler,
    "asynchyperband": AsyncHyperBandScheduler,
    "asha": AsyncHyperBandScheduler,
    "median_stopping_rule": MedianStoppingRule,
    "medianstopping": MedianStoppingRule,
    "hyperband": HyperBandScheduler,
    "hb_bohb": HyperBandForBOHB,
    "pbt": PopulationBasedTraining,
    "pbt_replay": PopulationBasedTrainingReplay,
    "pb2": PB2,
    "resource_changing": ResourceChangingScheduler,
}

__all__ = [
    "PB2",
    "ASHAScheduler",
    "AsyncHyperBandScheduler",
    "FIFOScheduler",
    "HyperBandForBOHB",
    "HyperBandScheduler",
    "MedianStoppingRule",
    "PopulationBasedTraining",
    "PopulationBasedTrainingReplay",
    "ResourceChangingScheduler",
    "TrialScheduler",
    "create_scheduler",
]


def create_scheduler(scheduler: str, **kwargs: object) -> TrialScheduler:
    """Make a scheduler by its name.

    Args:
        scheduler: The name, as "asha" or "pbt".
        **kwargs: Its arguments; those that it does not know are left out, so that names can be
            exchanged.

    Raises:
        ValueError: If there is no such name.

    Example:
        >>> from skate import tune
        >>> type(tune.create_scheduler("asha", metric="loss", mode="min")).__name__
        'AsyncHyperBandScheduler'
    """
    from skate.tune._arguments import accepted

    found = SCHEDULERS.get(scheduler.lower())
    if found is None:
        raise ValueError(f"scheduler takes one of {list(SCHEDULERS)}; got {scheduler!r}")
    return found(**accepted(found, kwargs))
