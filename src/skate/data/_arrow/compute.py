"""Arrow's functions, `pyarrow.compute`, imported with the first of them that is used.

That module makes hundreds of functions with their documentation when it is imported. A driver that
describes a dataset, and a task that reads a file and calls a function, need none of them.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

__all__ = ["pc"]


class _OnDemand:
    """Has the names of `pyarrow.compute`."""

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module("pyarrow.compute"), name)
        setattr(self, name, value)
        return value


if TYPE_CHECKING:
    import pyarrow.compute as pc
else:
    pc = _OnDemand()
