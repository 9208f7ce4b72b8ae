"""The settings of skate.data, under the name that Ray gives them."""

from __future__ import annotations

from skate._core.public_names import name_publicly
from skate.data._execution.options import ExecutionOptions, ExecutionResources
from skate.data._settings.context import PASSING_IO_ERRORS, DataContext
from skate.data._settings.without_effect import ShuffleStrategy

DatasetContext = DataContext  # its name in older versions of Ray
DEFAULT_RETRIED_IO_ERRORS = PASSING_IO_ERRORS


__all__ = [
    "DEFAULT_RETRIED_IO_ERRORS",
    "DataContext",
    "DatasetContext",
    "ExecutionOptions",
    "ExecutionResources",
    "ShuffleStrategy",
]

name_publicly("skate.data", DataContext, ExecutionOptions, ExecutionResources)
name_publicly("skate.data.context", ShuffleStrategy)
