"""Weights & Biases."""

from skate._core.public_names import name_publicly
from skate._run.loggers.wandb import WandbLoggerCallback, setup_wandb

__all__ = ["WandbLoggerCallback", "setup_wandb"]

name_publicly(__name__)
