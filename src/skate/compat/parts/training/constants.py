"""`ray.train.constants` and the like: names of files, of columns and of environment variables.

The variables tune services that do not exist here; programs and tests set them by these names.
"""

from __future__ import annotations

import os

import skate
from skate._run.config_checks import default_storage_path
from skate._run.ledger import RESULT_FILE

MAX_REPR_LENGTH = 120
SESSION_MISUSE_LOG_ONCE_KEY = "air_warn_session_misuse"

TIMESTAMP = "timestamp"
TIME_TOTAL_S = "_time_total_s"
WORKER_HOSTNAME = "_hostname"
WORKER_NODE_IP = "_node_ip"
WORKER_PID = "_pid"
DETAILED_AUTOFILLED_KEYS = {WORKER_HOSTNAME, WORKER_NODE_IP, WORKER_PID, TIME_TOTAL_S}
CHECKPOINT_ID_ATTR = TUNE_CHECKPOINT_ID = "_current_checkpoint_id"
EVALUATION_DATASET_KEY = "evaluation"
TIME_THIS_ITER_S = "time_this_iter_s"
TRAINING_ITERATION = "training_iteration"
CHECKPOINT_DIR_NAME = "checkpoint_dir_name"

EXPR_PARAM_FILE = "params.json"
EXPR_PARAM_PICKLE_FILE = "params.pkl"
EXPR_PROGRESS_FILE = "progress.csv"
EXPR_RESULT_FILE = RESULT_FILE
RESULT_FILE_JSON = "results.json"
CHECKPOINT_TUNE_METADATA_FILE = ".tune_metadata"
EXPR_ERROR_FILE = "error.txt"
EXPR_ERROR_PICKLE_FILE = "error.pkl"
LAZY_CHECKPOINT_MARKER_FILE = ".lazy_checkpoint_marker"
CHECKPOINT_MANAGER_SNAPSHOT_FILENAME = RESULT_FILE  # by which a folder is known to be a run's
DEFAULT_STORAGE_PATH = default_storage_path()

RAY_CHDIR_TO_TRIAL_DIR = "RAY_CHDIR_TO_TRIAL_DIR"
RAY_AIR_NEW_PERSISTENCE_MODE = "RAY_AIR_NEW_PERSISTENCE_MODE"
RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE = "RAY_TRAIN_COUNT_PREEMPTION_AS_FAILURE"
RAY_TRAIN_ENABLE_STATE_TRACKING = "RAY_TRAIN_ENABLE_STATE_TRACKING"
RAY_TRAIN_CALLBACKS_ENV_VAR = "RAY_TRAIN_CALLBACKS"
RAY_TUNE_CALLBACKS_ENV_VAR = "RAY_TUNE_CALLBACKS"
ENABLE_SHARE_CUDA_VISIBLE_DEVICES_ENV = "TRAIN_ENABLE_SHARE_CUDA_VISIBLE_DEVICES"
ENABLE_DETAILED_AUTOFILLED_METRICS_ENV = "TRAIN_RESULT_ENABLE_DETAILED_AUTOFILLED_METRICS"
TRAIN_PLACEMENT_GROUP_TIMEOUT_S_ENV = "TRAIN_PLACEMENT_GROUP_TIMEOUT_S"
TRAIN_ENABLE_WORKER_SPREAD_ENV = "TRAIN_ENABLE_WORKER_SPREAD"
TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S = "TORCH_PROCESS_GROUP_SHUTDOWN_TIMEOUT_S"
COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING_ENV = (
    "TRAIN_COPY_DIRECTORY_CHECKPOINTS_INSTEAD_OF_MOVING"
)


def _get_ray_train_session_dir() -> str:
    """Return where workers of training have their working directories, where they have one."""
    return os.path.join(skate.get_runtime_context().get_temp_dir(), "artifacts")


def is_v2_enabled() -> bool:
    """Return True: today's training is the only one."""
    return True


def get_env_vars_to_propagate() -> dict[str, str]:
    """Return nothing: workers have all variables of the program anyway."""
    return {}


def __getattr__(name: str) -> str:
    """Return the variable RAY_TRAIN_SOMETHING for `SOMETHING_ENV_VAR`, and for `SOMETHING_ENV`."""
    if name.endswith(("_ENV", "_ENV_VAR")):
        return f"RAY_TRAIN_{name.removesuffix('_VAR').removesuffix('_ENV')}"
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
