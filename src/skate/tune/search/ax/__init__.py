"""Search with Ax: Bayesian optimisation by BoTorch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.tune.search.ax.ax_search import AxSearch
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = ["AxSearch"]
