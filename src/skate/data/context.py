"""The settings of skate.data, under the name that Ray gives them."""

from __future__ import annotations

import warnings
from enum import Enum

from skate._core.public_names import name_publicly
from skate.data._execution.options import ExecutionOptions, ExecutionResources
from skate.data._settings.context import PASSING_IO_ERRORS, DataContext

DatasetContext = DataContext  # its name in older versions of Ray
DEFAULT_RETRIED_IO_ERRORS = PASSING_IO_ERRORS


class ShuffleStrategy(str, Enum):
    """How Ray shuffles, for `DataContext.shuffle_strategy`; here Arrow does, in its own way."""

    SORT_SHUFFLE_PULL_BASED = "sort_shuffle_pull_based"
    SORT_SHUFFLE_PUSH_BASED = "sort_shuffle_push_based"
    HASH_SHUFFLE = "hash_shuffle"
    SHUFFLE_V2 = "shuffle_v2"
    GPU_SHUFFLE = "gpu_shuffle"
    HASH_SHUFFLE_V2 = "shuffle_v2"  # noqa: PIE796 - an older name of the same

    @classmethod
    def _missing_(cls, value: object) -> ShuffleStrategy | None:
        if value != "hash_shuffle_v2":
            return None
        warnings.warn(
            "'hash_shuffle_v2' is the older name of 'shuffle_v2'", DeprecationWarning, stacklevel=4
        )
        return cls.SHUFFLE_V2


__all__ = [
    "DEFAULT_RETRIED_IO_ERRORS",
    "DataContext",
    "DatasetContext",
    "ExecutionOptions",
    "ExecutionResources",
    "ShuffleStrategy",
]

name_publicly("skate.data", DataContext, ExecutionOptions, ExecutionResources)
