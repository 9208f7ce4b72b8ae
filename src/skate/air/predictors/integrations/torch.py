"""The one `TorchPredictor`."""

from skate.predict import TorchPredictor

__all__ = ["TorchPredictor"]
