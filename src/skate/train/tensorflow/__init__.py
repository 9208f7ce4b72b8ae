"""Training with TensorFlow. The program that starts the training need not import it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.optional_imports import is_installed, missing
from skate._core.public_names import lazy_names, name_publicly
from skate.train.tensorflow._config import TensorflowConfig
from skate.train.tensorflow._loaders import prepare_dataset_shard
from skate.train.tensorflow.tensorflow_checkpoint import TensorflowCheckpoint
from skate.train.tensorflow.tensorflow_trainer import TensorflowTrainer

if not is_installed("tensorflow"):
    raise missing("tensorflow", "tensorflow")

if TYPE_CHECKING:
    from skate.predict.tensorflow import TensorflowPredictor
    from skate.train.tensorflow import keras as keras
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "TensorflowCheckpoint",
    "TensorflowConfig",
    "TensorflowPredictor",
    "TensorflowTrainer",
    "prepare_dataset_shard",
]

name_publicly(__name__)
