"""Weights & Biases."""

from skate._core.public_names import name_publicly
from skate._run.loggers.wandb import (
    WANDB_ENV_VAR,
    WANDB_GROUP_ENV_VAR,
    WANDB_MODE_ENV_VAR,
    WANDB_POPULATE_RUN_LOCATION_HOOK,
    WANDB_PROCESS_RUN_INFO_HOOK,
    WANDB_PROJECT_ENV_VAR,
    WANDB_SETUP_API_KEY_HOOK,
    WandbLoggerCallback,
    setup_wandb,
)

__all__ = [
    "WANDB_ENV_VAR",
    "WANDB_GROUP_ENV_VAR",
    "WANDB_MODE_ENV_VAR",
    "WANDB_POPULATE_RUN_LOCATION_HOOK",
    "WANDB_PROCESS_RUN_INFO_HOOK",
    "WANDB_PROJECT_ENV_VAR",
    "WANDB_SETUP_API_KEY_HOOK",
    "WandbLoggerCallback",
    "setup_wandb",
]

name_publicly(__name__)
