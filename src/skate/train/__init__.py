"""Distributed training: `TorchTrainer(loop, scaling_config=…).fit()`, and what loops call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names, name_publicly
from skate._run.callbacks import UserCallback
from skate._run.checkpoint import Checkpoint
from skate._run.config import CheckpointConfig, FailureConfig, LoggingConfig, RunConfig, SyncConfig
from skate._run.context import TrainContext
from skate._run.reporting import CheckpointUploadMode
from skate._run.result import Result
from skate._run.scaling_config import ScalingConfig
from skate._run.session import (
    find_sessions_by,
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
from skate.train._launched import launched_session
from skate.train._preemption import PreemptionError, PreemptionInfo, get_preemption_info
from skate.train._reported import (
    CheckpointConsistencyMode,
    ReportedCheckpoint,
    get_all_reported_checkpoints,
)
from skate.train.backend import Backend, BackendConfig
from skate.train.data_parallel_trainer import DataParallelTrainer

if TYPE_CHECKING:
    from skate.train import (
        base_trainer as base_trainer,
    )
    from skate.train import (
        callbacks as callbacks,
    )
    from skate.train import (
        collective as collective,
    )
    from skate.train import (
        constants as constants,
    )
    from skate.train import (
        huggingface as huggingface,
    )
    from skate.train import (
        lightgbm as lightgbm,
    )
    from skate.train import (
        lightning as lightning,
    )
    from skate.train import (
        session as session,
    )
    from skate.train import (
        sklearn as sklearn,
    )
    from skate.train import (
        tensorflow as tensorflow,
    )
    from skate.train import (
        torch as torch,
    )
    from skate.train import (
        trainer as trainer,
    )
    from skate.train import (
        xgboost as xgboost,
    )
    from skate.train.callbacks import TrainingCallback as TrainingCallback
    from skate.train.trainer import (
        CheckpointStrategy as CheckpointStrategy,
    )
    from skate.train.trainer import (
        Trainer as Trainer,
    )
    from skate.train.trainer import (
        TrainingIterator as TrainingIterator,
    )
else:
    # `dir` lists no framework: doctest, pydoc and inspect look at all names, and would import
    # every one that is installed, for a quarter of a minute.
    __getattr__, __dir__ = lazy_names(__name__)

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
    "PreemptionError",
    "PreemptionInfo",
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

find_sessions_by(launched_session)
name_publicly(__name__)
