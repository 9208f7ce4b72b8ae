"""The one `XGBoostPredictor`."""

from skate.predict import XGBoostPredictor

__all__ = ["XGBoostPredictor"]
