"""Configurations of runs, under Ray AIR's name."""

from __future__ import annotations

from skate._run.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig, SyncConfig
from skate.train._dataset_config import DatasetConfig

__all__ = [
    "CheckpointConfig",
    "DatasetConfig",
    "FailureConfig",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
]
