"""Configurations of runs, under Ray AIR's name."""

from __future__ import annotations

from dataclasses import dataclass

from skate._run.config import CheckpointConfig, FailureConfig, RunConfig, ScalingConfig, SyncConfig

__all__ = [
    "CheckpointConfig",
    "DatasetConfig",
    "FailureConfig",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
]


@dataclass
class DatasetConfig:
    """How a trainer treats one dataset: an older form of `train.DataConfig`. `split` shares it out
    between the workers; otherwise each gets all of it."""

    split: bool | None = None
