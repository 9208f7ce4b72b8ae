"""Its name until Ray 2.5; see skate.tune.search.bohb."""

from skate.tune.search.bohb import TuneBOHB

__all__ = ["TuneBOHB"]
