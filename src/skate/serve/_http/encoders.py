"""What FastAPI does not know how to write as JSON."""

from __future__ import annotations

import sys
from typing import Any


def teach_fastapi() -> None:
    """Let FastAPI answer with NumPy's arrays and numbers, if both are imported."""
    encoders: Any = sys.modules.get("fastapi.encoders")
    numpy: Any = sys.modules.get("numpy")
    if encoders is None or numpy is None or numpy.ndarray in encoders.ENCODERS_BY_TYPE:
        return
    encoders.ENCODERS_BY_TYPE[numpy.ndarray] = lambda array: array.tolist()
    encoders.ENCODERS_BY_TYPE[numpy.generic] = lambda number: number.item()
    # It has looked its table up already, for subclasses.
    encoders.encoders_by_class_tuples = encoders.generate_encoders_by_class_tuples(
        encoders.ENCODERS_BY_TYPE
    )
