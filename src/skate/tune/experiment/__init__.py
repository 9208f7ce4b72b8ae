"""Experiments and their trials."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.tune.experiment.experiment import Experiment
    from skate.tune.experiment.trial import Trial
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["Experiment", "Trial"]
