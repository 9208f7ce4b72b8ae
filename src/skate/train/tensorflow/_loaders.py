"""Data of a worker as tf.data."""

from __future__ import annotations

from typing import Any

from skate._imports import try_import


def prepare_dataset_shard(tf_dataset_shard: Any) -> Any:
    """A `tf.data.Dataset` that is this worker's part already: TensorFlow must not split it again,
    and reads ahead."""
    tf = try_import("tensorflow", "tensorflow")
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return tf_dataset_shard.with_options(options).prefetch(tf.data.AUTOTUNE)
