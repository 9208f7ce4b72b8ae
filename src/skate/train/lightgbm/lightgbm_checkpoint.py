"""LightGBM models in checkpoints."""

from __future__ import annotations

import lightgbm

from skate.predict.lightgbm import LightGBMPredictor
from skate.train._model_files import BoosterCheckpoint


class LightGBMCheckpoint(BoosterCheckpoint):
    """A checkpoint with a Booster."""

    MODEL_FILENAME: str = "model.txt"

    def get_model(self) -> lightgbm.Booster:
        """Return the model."""
        booster: lightgbm.Booster = LightGBMPredictor.from_checkpoint(self).model
        return booster
