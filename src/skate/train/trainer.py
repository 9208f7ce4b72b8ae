"""The base of all trainers, under one more path."""

from skate.train.base_trainer import BaseTrainer, TrainingFailedError

__all__ = ["BaseTrainer", "TrainingFailedError"]
