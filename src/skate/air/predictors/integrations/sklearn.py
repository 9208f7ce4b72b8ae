"""The one `SklearnPredictor`."""

from skate.predict import SklearnPredictor

__all__ = ["SklearnPredictor"]
