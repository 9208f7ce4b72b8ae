"""Training with XGBoost."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.optional_imports import try_import
from skate._core.public_names import lazy_names, name_publicly

try_import("xgboost", "xgboost")

from skate.train.xgboost._callback import TrainReportCallback  # noqa: E402
from skate.train.xgboost._config import XGBoostConfig  # noqa: E402
from skate.train.xgboost.xgboost_checkpoint import XGBoostCheckpoint  # noqa: E402
from skate.train.xgboost.xgboost_trainer import XGBoostTrainer  # noqa: E402

if TYPE_CHECKING:
    from skate.predict.xgboost import XGBoostPredictor
else:
    __getattr__, __dir__ = lazy_names(__name__)

RayTrainReportCallback = TrainReportCallback

__all__ = [
    "RayTrainReportCallback",
    "TrainReportCallback",
    "XGBoostCheckpoint",
    "XGBoostConfig",
    "XGBoostPredictor",
    "XGBoostTrainer",
]

name_publicly(__name__)
