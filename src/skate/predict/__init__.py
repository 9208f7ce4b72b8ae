"""Models from checkpoints that predict: a batch here, or a dataset on many workers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.predict._batches import BatchFormat
    from skate.predict.batch_predictor import BatchPredictor
    from skate.predict.lightgbm import LightGBMPredictor
    from skate.predict.predictor import Predictor, PredictorNotSerializableException
    from skate.predict.sklearn import SklearnPredictor
    from skate.predict.tensorflow import TensorflowPredictor
    from skate.predict.torch import TorchPredictor
    from skate.predict.xgboost import XGBoostPredictor

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

_HOMES = {
    "BatchFormat": "_batches",
    "BatchPredictor": "batch_predictor",
    "LightGBMPredictor": "lightgbm",
    "Predictor": "predictor",
    "PredictorNotSerializableException": "predictor",
    "SklearnPredictor": "sklearn",
    "TensorflowPredictor": "tensorflow",
    "TorchPredictor": "torch",
    "XGBoostPredictor": "xgboost",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'skate.predict' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"skate.predict.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
