"""Weights & Biases."""

from skate._run.loggers.wandb import WandbLoggerCallback, setup_wandb

__all__ = ["WandbLoggerCallback", "setup_wandb"]
