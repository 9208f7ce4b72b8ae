"""Its name until Ray 2.5; see skate.tune.search.hyperopt."""

from skate.tune.search.hyperopt import HyperOptSearch

__all__ = ["HyperOptSearch"]
