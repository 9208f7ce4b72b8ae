"""Search with Optuna."""

from skate.tune.search.optuna.optuna_search import OptunaSearch

__all__ = ["OptunaSearch"]
