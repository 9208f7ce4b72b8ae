"""`ray.tune.execution.trial_runner`: what schedulers and callbacks of that era are written for."""

from skate.tune.execution.controller import TuneController as TrialRunner

__all__ = ["TrialRunner"]
