"""The one `Predictor`, and the forms of batches it takes."""

from typing import Any

from skate.air.data_batch_type import DataBatchType
from skate.predict import BatchFormat, Predictor, PredictorNotSerializableException

__all__ = [
    "BatchFormat",
    "DataBatchType",
    "Predictor",
    "PredictorNotSerializableException",
]


def __getattr__(name: str) -> Any:
    if name == "TYPE_TO_ENUM":  # made when it is asked for, because pandas is slow to import
        from skate.predict._batches import formats_by_type

        return formats_by_type()
    raise AttributeError(f"module 'skate.train.predictor' has no attribute {name!r}")
