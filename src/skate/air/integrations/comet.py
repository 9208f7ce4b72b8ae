"""Comet."""

from skate._core.public_names import name_publicly
from skate._run.loggers.comet import CometLoggerCallback

__all__ = ["CometLoggerCallback"]

name_publicly(__name__)
