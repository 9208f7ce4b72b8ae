"""Data of a worker as tf.data."""

from __future__ import annotations

from typing import Any

from skate._core.optional_imports import try_import
from skate._core.tensorflow_processes import unsplit


def prepare_dataset_shard(tf_dataset_shard: object) -> Any:
    """Return a `tf.data.Dataset` that TensorFlow does not split again, and that reads ahead.

    Args:
        tf_dataset_shard: The dataset, which is this worker's part already.
    """
    tf = try_import("tensorflow", "tensorflow")
    return unsplit(tf_dataset_shard).prefetch(tf.data.AUTOTUNE)
