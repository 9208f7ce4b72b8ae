"""Its name until Ray 2.5; see skate.tune.search.bayesopt."""

from skate.tune.search.bayesopt import BayesOptSearch

__all__ = ["BayesOptSearch"]
