"""Models from checkpoints that predict: a batch here, or a dataset on many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.predict._batches import BatchFormat
    from skate.predict.batch_predictor import BatchPredictor
    from skate.predict.lightgbm import LightGBMPredictor
    from skate.predict.predictor import Predictor, PredictorNotSerializableException
    from skate.predict.sklearn import SklearnPredictor
    from skate.predict.tensorflow import TensorflowPredictor
    from skate.predict.torch import TorchPredictor
    from skate.predict.xgboost import XGBoostPredictor
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "BatchFormat",
    "BatchPredictor",
    "LightGBMPredictor",
    "Predictor",
    "PredictorNotSerializableException",
    "SklearnPredictor",
    "TensorflowPredictor",
    "TorchPredictor",
    "XGBoostPredictor",
]
