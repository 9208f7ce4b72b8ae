"""XGBoost models in checkpoints."""

from __future__ import annotations

import xgboost

from skate.predict.xgboost import XGBoostPredictor
from skate.train._model_files import BoosterCheckpoint


class XGBoostCheckpoint(BoosterCheckpoint):
    """A checkpoint with a Booster."""

    MODEL_FILENAME: str = "model.json"

    def get_model(self) -> xgboost.Booster:
        """Return the model."""
        booster: xgboost.Booster = XGBoostPredictor.from_checkpoint(self).model
        return booster
