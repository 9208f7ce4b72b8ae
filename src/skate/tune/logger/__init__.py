"""Results to files and to trackers of experiments."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate._core.public_names import name_publicly
from skate._run.loggers import (
    CSVLoggerCallback,
    JsonLoggerCallback,
    LoggerCallback,
    TBXLoggerCallback,
)
from skate._run.values import to_json
from skate.tune.logger._legacy import (
    CSVLogger,
    JsonLogger,
    LegacyLoggerCallback,
    Logger,
    NoopLogger,
    TBXLogger,
    UnifiedLogger,
)

__all__ = [
    "DEFAULT_LOGGERS",
    "CSVLogger",
    "CSVLoggerCallback",
    "JsonLogger",
    "JsonLoggerCallback",
    "LegacyLoggerCallback",
    "Logger",
    "LoggerCallback",
    "NoopLogger",
    "TBXLogger",
    "TBXLoggerCallback",
    "UnifiedLogger",
    "pretty_print",
]

DEFAULT_LOGGERS = (JsonLogger, CSVLogger, TBXLogger)


def pretty_print(result: Mapping[str, object], exclude: Any = None) -> str:
    """Return a result as indented text, without its configuration and what is `exclude`d."""
    hidden = {"config", "hist_stats", *(exclude or ())}
    shown = {
        name: value for name, value in result.items() if name not in hidden and value is not None
    }
    return to_json(shown, indent=2) + "\n"


name_publicly(__name__)
