"""Names for NumPy's arrays in annotations; NumPy itself is not imported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import numpy as np

Array: TypeAlias = "np.ndarray[Any, Any]"
"""An array of any shape and any kind of values."""

Dtype: TypeAlias = "np.dtype[Any]"
"""The kind of an array's values, whichever it is."""
