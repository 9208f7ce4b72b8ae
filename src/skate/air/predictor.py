"""The one `Predictor`."""

from skate.predict import Predictor

__all__ = ["Predictor"]
