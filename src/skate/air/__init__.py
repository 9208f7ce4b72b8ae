"""The names of Ray AIR: the same classes and functions as in skate.train and skate.tune."""

from __future__ import annotations

from typing import Any

from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig, SyncConfig
from skate._run.result import Result
from skate.air import config, session
from skate.air.config import DatasetConfig

__all__ = [
    "BatchPredictor",
    "Checkpoint",
    "CheckpointConfig",
    "DataBatchType",
    "DatasetConfig",
    "FailureConfig",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "config",
    "session",
]

_ELSEWHERE = {
    "BatchPredictor": "skate.predict",
    "Predictor": "skate.predict",
    "DataConfig": "skate.train",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _ELSEWHERE:
        return getattr(import_module(_ELSEWHERE[name]), name)
    if name == "DataBatchType":
        return import_module("skate.air.data_batch_type").DataBatchType
    if name in ("util", "integrations", "predictors", "callbacks", "checkpoint", "result"):
        return import_module(f"skate.air.{name}")
    raise AttributeError(f"module 'skate.air' has no attribute {name!r}")
