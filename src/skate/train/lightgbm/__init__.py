"""Training with LightGBM."""

from __future__ import annotations

from typing import Any

from skate._core.optional_imports import try_import

try_import("lightgbm", "lightgbm")

from skate.train.lightgbm._callback import TrainReportCallback  # noqa: E402
from skate.train.lightgbm._config import LightGBMConfig, get_network_params  # noqa: E402
from skate.train.lightgbm._frames import normalize_pandas_for_lightgbm  # noqa: E402
from skate.train.lightgbm.lightgbm_checkpoint import LightGBMCheckpoint  # noqa: E402
from skate.train.lightgbm.lightgbm_trainer import LightGBMTrainer  # noqa: E402

RayTrainReportCallback = TrainReportCallback

__all__ = [
    "LightGBMCheckpoint",
    "LightGBMConfig",
    "LightGBMPredictor",
    "LightGBMTrainer",
    "RayTrainReportCallback",
    "TrainReportCallback",
    "get_network_params",
    "normalize_pandas_for_lightgbm",
]


def __getattr__(name: str) -> Any:
    if name == "LightGBMPredictor":
        from skate.predict import LightGBMPredictor

        return LightGBMPredictor
    raise AttributeError(f"module 'skate.train.lightgbm' has no attribute {name!r}")
