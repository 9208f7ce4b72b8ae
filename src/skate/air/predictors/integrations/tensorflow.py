"""The one `TensorflowPredictor`."""

from skate.predict import TensorflowPredictor

__all__ = ["TensorflowPredictor"]
