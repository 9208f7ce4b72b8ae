"""Which type of Arrow columns of tensors have: a setting of Ray."""

from __future__ import annotations

from enum import Enum
from typing import Any


class FixedShapeTensorFormat(Enum):
    """Ray has two types of its own beside Arrow's; here columns have Arrow's in any case."""

    V1 = "v1"
    V2 = "v2"
    ARROW_NATIVE = "arrow_native"

    def to_type(self) -> Any:
        """Return the class that makes such a type, of a shape and the type of the numbers."""
        from skate.data.extensions import ArrowTensorType

        return ArrowTensorType
