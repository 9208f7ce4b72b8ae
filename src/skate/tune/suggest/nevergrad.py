"""Its name until Ray 2.5; see skate.tune.search.nevergrad."""

from skate.tune.search.nevergrad import NevergradSearch

__all__ = ["NevergradSearch"]
