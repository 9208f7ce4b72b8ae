"""Search with BOHB, together with the scheduler HyperBandForBOHB."""

from skate.tune.search.bohb.bohb_search import TuneBOHB

BOHB = TuneBOHB  # an older name

__all__ = ["BOHB", "TuneBOHB"]
