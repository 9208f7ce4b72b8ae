"""The one `LightGBMPredictor`."""

from skate.predict import LightGBMPredictor

__all__ = ["LightGBMPredictor"]
