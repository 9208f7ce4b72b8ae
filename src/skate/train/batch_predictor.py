"""The one `BatchPredictor`."""

from skate.predict import BatchPredictor

__all__ = ["BatchPredictor"]
