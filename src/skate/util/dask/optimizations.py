"""What Ray did to graphs of data frames. Dask does it by itself, before there is a graph."""

from __future__ import annotations

from typing import Any


def dataframe_optimize(dsk: Any, keys: Any, **kwargs: Any) -> Any:
    """The graph as it is, for `dask.config.set(dataframe_optimize=...)`."""
    return dsk
