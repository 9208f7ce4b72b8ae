"""XGBoost models in checkpoints."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import xgboost

from skate.predict.xgboost import XGBoostPredictor
from skate.train._model_files import ModelFileCheckpoint

AnyXGBoostCheckpoint = TypeVar("AnyXGBoostCheckpoint", bound="XGBoostCheckpoint")


class XGBoostCheckpoint(ModelFileCheckpoint):
    """A checkpoint with a Booster."""

    MODEL_FILENAME: str = "model.json"

    @classmethod
    def from_model(
        cls: type[AnyXGBoostCheckpoint],
        booster: xgboost.Booster,
        *,
        preprocessor: Any = None,
        path: str | os.PathLike[str] | None = None,
    ) -> AnyXGBoostCheckpoint:
        """One that holds this model, in the folder `path` or a new temporary one."""
        return cls._written(booster.save_model, preprocessor, path)

    def get_model(self) -> xgboost.Booster:
        """The model."""
        booster: xgboost.Booster = XGBoostPredictor.from_checkpoint(self).model
        return booster
