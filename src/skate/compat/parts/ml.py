"""`ray.ml`, of Ray 1.12 and 1.13: names that became others in `ray.air`."""

from __future__ import annotations

from skate._run.config import ScalingConfig as ScalingConfigDataClass
from skate.train.base_trainer import BaseTrainer as Trainer

__all__ = ["ScalingConfigDataClass", "Trainer"]
