"""Search with BOHB, together with the scheduler HyperBandForBOHB."""

from skate.tune.search.bohb.bohb_search import TuneBOHB

__all__ = ["TuneBOHB"]
