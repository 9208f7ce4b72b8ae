"""Its name until Ray 2.5; see skate.tune.search.optuna."""

from skate.tune.search.optuna import OptunaSearch

__all__ = ["OptunaSearch"]
