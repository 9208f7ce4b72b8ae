"""Experiments and their trials."""

from skate.tune.experiment.experiment import Experiment
from skate.tune.experiment.trial import Trial

__all__ = ["Experiment", "Trial"]
