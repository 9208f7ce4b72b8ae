"""Distributed training: `TorchTrainer(loop, scaling_config=…).fit()`, and what loops call."""

from __future__ import annotations

from typing import Any

from skate._run.callbacks import UserCallback
from skate._run.checkpoint import Checkpoint
from skate._run.config import (
    CheckpointConfig,
    FailureConfig,
    LoggingConfig,
    RunConfig,
    ScalingConfig,
    SyncConfig,
)
from skate._run.context import TrainContext
from skate._run.reporting import CheckpointUploadMode
from skate._run.result import Result
from skate._run.session import (
    get_checkpoint,
    get_context,
    get_dataset_shard,
    load_checkpoint,
    local_rank,
    local_world_size,
    node_rank,
    report,
    save_checkpoint,
    world_rank,
    world_size,
)
from skate._run.validation import (
    ReportedCheckpointStatus,
    ValidationConfig,
    ValidationFn,
    ValidationTaskConfig,
)
from skate.train._data import TRAIN_DATASET_KEY, DataConfig
from skate.train._errors import ControllerError, TrainingFailedError, WorkerGroupError
from skate.train._preemption import get_preemption_info
from skate.train._reported import (
    CheckpointConsistencyMode,
    ReportedCheckpoint,
    get_all_reported_checkpoints,
)
from skate.train.backend import Backend, BackendConfig
from skate.train.data_parallel_trainer import DataParallelTrainer

__all__ = [
    "TRAIN_DATASET_KEY",
    "Backend",
    "BackendConfig",
    "Checkpoint",
    "CheckpointConfig",
    "CheckpointConsistencyMode",
    "CheckpointUploadMode",
    "ControllerError",
    "DataConfig",
    "DataParallelTrainer",
    "FailureConfig",
    "LoggingConfig",
    "ReportedCheckpoint",
    "ReportedCheckpointStatus",
    "Result",
    "RunConfig",
    "ScalingConfig",
    "SyncConfig",
    "TrainContext",
    "TrainingFailedError",
    "UserCallback",
    "ValidationConfig",
    "ValidationFn",
    "ValidationTaskConfig",
    "WorkerGroupError",
    "get_all_reported_checkpoints",
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "get_preemption_info",
    "load_checkpoint",
    "local_rank",
    "local_world_size",
    "node_rank",
    "report",
    "save_checkpoint",
    "world_rank",
    "world_size",
]

_FRAMEWORKS = frozenset("torch tensorflow lightning huggingface sklearn xgboost lightgbm".split())
_LAZY = frozenset(
    """batch_predictor predictor base_trainer trainer callbacks collective context session error
    constants""".split()
)


_OF_RAY_1 = {
    "CheckpointStrategy": "trainer",
    "Trainer": "trainer",
    "TrainingCallback": "callbacks",
    "TrainingIterator": "trainer",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _LAZY or name in _FRAMEWORKS:
        return import_module(f"skate.train.{name}")
    if name in _OF_RAY_1:
        return getattr(import_module(f"skate.train.{_OF_RAY_1[name]}"), name)
    from skate._facade.former_names import no_such_name

    raise AttributeError(no_such_name("train", name))


def __dir__() -> list[str]:
    # Without the frameworks: who walks over all names (doctest, pydoc, inspect) would import
    # every one that is installed, for a quarter of a minute.
    return sorted({*globals(), *_LAZY, *_OF_RAY_1})
