"""Loggers for `RunConfig(callbacks=[…])`; JSON, CSV and TensorBoard are written anyway."""

from skate._run.loggers import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback
from skate._run.loggers.mlflow import MLflowLoggerCallback

__all__ = [
    "CSVLoggerCallback",
    "JsonLoggerCallback",
    "MLflowLoggerCallback",
    "TBXLoggerCallback",
]
