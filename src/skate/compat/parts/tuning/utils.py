"""`ray.tune.utils.util`: numbers that are none."""

from __future__ import annotations

import math


def is_nan(value: object) -> bool:
    """Whether it is a number that is none."""
    return isinstance(value, float) and math.isnan(value)


def is_nan_or_inf(value: object) -> bool:
    """Whether it is no finite number."""
    return isinstance(value, float) and not math.isfinite(value)
