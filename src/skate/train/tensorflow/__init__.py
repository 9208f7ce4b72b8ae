"""Training with TensorFlow. The program that starts the training need not import it."""

from __future__ import annotations

from typing import Any

from skate._core.optional_imports import is_installed
from skate.train.tensorflow._config import TensorflowConfig
from skate.train.tensorflow._loaders import prepare_dataset_shard
from skate.train.tensorflow.tensorflow_checkpoint import TensorflowCheckpoint
from skate.train.tensorflow.tensorflow_trainer import TensorflowTrainer

if not is_installed("tensorflow"):
    raise ImportError(
        "this needs the package 'tensorflow', which is not installed: "
        'pip install "skate[tensorflow]"',
        name="tensorflow",
    )

__all__ = [
    "TensorflowCheckpoint",
    "TensorflowConfig",
    "TensorflowPredictor",
    "TensorflowTrainer",
    "prepare_dataset_shard",
]


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name == "TensorflowPredictor":
        return import_module("skate.predict.tensorflow").TensorflowPredictor
    if name == "keras":
        return import_module("skate.train.tensorflow.keras")
    raise AttributeError(f"module 'skate.train.tensorflow' has no attribute {name!r}")
