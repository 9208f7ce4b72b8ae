"""MLflow."""

from skate._core.public_names import name_publicly
from skate._run.loggers.mlflow import MLflowLoggerCallback, setup_mlflow

__all__ = ["MLflowLoggerCallback", "setup_mlflow"]

name_publicly(__name__)
