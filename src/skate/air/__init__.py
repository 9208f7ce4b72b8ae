"""The names of Ray AIR: the same classes and functions as in skate.train and skate.tune."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.air import integrations
    from skate.predict import BatchPredictor, Predictor
    from skate.predict.batch_conversion import DataBatchType
    from skate.train import (
        Checkpoint,
        CheckpointConfig,
        DataConfig,
        FailureConfig,
        Result,
        RunConfig,
        ScalingConfig,
        SyncConfig,
        session,
    )
    from skate.train._dataset_config import DatasetConfig
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "BatchPredictor",
    "Checkpoint",
    "CheckpointConfig",
    "DataBatchType",
    "DataConfig",
    "DatasetConfig",
    "FailureConfig",
    "Predictor",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "integrations",
    "session",
]
