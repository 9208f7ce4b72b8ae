"""Training with XGBoost."""

from __future__ import annotations

from typing import Any

from skate._core.optional_imports import try_import

try_import("xgboost", "xgboost")

from skate.train.xgboost._callback import TrainReportCallback  # noqa: E402
from skate.train.xgboost._config import XGBoostConfig  # noqa: E402
from skate.train.xgboost.xgboost_checkpoint import XGBoostCheckpoint  # noqa: E402
from skate.train.xgboost.xgboost_trainer import XGBoostTrainer  # noqa: E402

RayTrainReportCallback = TrainReportCallback

__all__ = [
    "RayTrainReportCallback",
    "TrainReportCallback",
    "XGBoostCheckpoint",
    "XGBoostConfig",
    "XGBoostPredictor",
    "XGBoostTrainer",
]


def __getattr__(name: str) -> Any:
    if name == "XGBoostPredictor":
        from skate.predict import XGBoostPredictor

        return XGBoostPredictor
    raise AttributeError(f"module 'skate.train.xgboost' has no attribute {name!r}")
