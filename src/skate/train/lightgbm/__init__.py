"""Training with LightGBM."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.optional_imports import try_import
from skate._core.public_names import lazy_names, name_publicly

try_import("lightgbm", "lightgbm")

from skate.train.lightgbm._callback import TrainReportCallback  # noqa: E402
from skate.train.lightgbm._config import LightGBMConfig, get_network_params  # noqa: E402
from skate.train.lightgbm._frames import normalize_pandas_for_lightgbm  # noqa: E402
from skate.train.lightgbm.lightgbm_checkpoint import LightGBMCheckpoint  # noqa: E402
from skate.train.lightgbm.lightgbm_trainer import LightGBMTrainer  # noqa: E402

if TYPE_CHECKING:
    from skate.predict.lightgbm import LightGBMPredictor
else:
    __getattr__, __dir__ = lazy_names(__name__)

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

name_publicly(__name__)
