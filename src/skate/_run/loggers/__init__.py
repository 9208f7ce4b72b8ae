"""Results to files and to trackers of experiments: one file each."""

from skate._run.loggers.base import LoggerCallback
from skate._run.loggers.csv_file import CSVLoggerCallback
from skate._run.loggers.json_file import JsonLoggerCallback
from skate._run.loggers.tensorboard import TBXLoggerCallback

__all__ = [
    "CSVLoggerCallback",
    "JsonLoggerCallback",
    "LoggerCallback",
    "TBXLoggerCallback",
    "default_loggers",
    "is_default_logger",
]

_DEFAULT = (JsonLoggerCallback, CSVLoggerCallback, TBXLoggerCallback)


def default_loggers(flush_every_s: float = 0.0) -> list[LoggerCallback]:
    """Make the loggers that every run has."""
    return [kind(flush_every_s) for kind in _DEFAULT]


def is_default_logger(callback: object) -> bool:
    """Return whether it is one of those that every run has, not a subclass of one."""
    return type(callback) in _DEFAULT
