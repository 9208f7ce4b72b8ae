"""Search with BOHB, together with the scheduler HyperBandForBOHB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.tune.search.bohb.bohb_search import TuneBOHB

    BOHB = TuneBOHB  # an older name
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["BOHB", "TuneBOHB"]
