"""Constants of `ray.data.context`: `DEFAULT_TARGET_MAX_BLOCK_SIZE` and the like."""

from __future__ import annotations

from typing import Any

from skate.data.context import DataContext

MAX_SAFE_BLOCK_SIZE_FACTOR = 1.5


def __getattr__(name: str) -> Any:
    setting = name.removeprefix("DEFAULT_").lower()
    if name.startswith("DEFAULT_") and setting in DataContext.__dataclass_fields__:
        return getattr(DataContext(), setting)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
