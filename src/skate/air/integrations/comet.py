"""Comet."""

from skate._run.loggers.comet import CometLoggerCallback

__all__ = ["CometLoggerCallback"]
