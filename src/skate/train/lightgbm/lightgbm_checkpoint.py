"""LightGBM models in checkpoints."""

from __future__ import annotations

import os
from typing import Any, TypeVar

import lightgbm

from skate.predict.lightgbm import LightGBMPredictor
from skate.train._model_files import ModelFileCheckpoint

AnyLightGBMCheckpoint = TypeVar("AnyLightGBMCheckpoint", bound="LightGBMCheckpoint")


class LightGBMCheckpoint(ModelFileCheckpoint):
    """A checkpoint with a Booster."""

    MODEL_FILENAME: str = "model.txt"

    @classmethod
    def from_model(
        cls: type[AnyLightGBMCheckpoint],
        booster: lightgbm.Booster,
        *,
        preprocessor: Any = None,
        path: str | os.PathLike[str] | None = None,
    ) -> AnyLightGBMCheckpoint:
        """One that holds this model, in the folder `path` or a new temporary one."""
        return cls._written(booster.save_model, preprocessor, path)

    def get_model(self) -> lightgbm.Booster:
        """The model."""
        booster: lightgbm.Booster = LightGBMPredictor.from_checkpoint(self).model
        return booster
