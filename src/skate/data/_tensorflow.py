"""Batches for TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from skate._imports import try_import
from skate.data._batching import check_given, of_column
from skate.data._blocks import check_columns


def tensors_of(batch: dict[str, Any], dtypes: Any) -> dict[str, Any]:
    """A dictionary of tensors; columns of unequal shapes become ragged tensors."""
    tf = try_import("tensorflow", "tensorflow")
    check_given(dtypes, list(batch))
    found = {}
    for name, array in batch.items():
        dtype = of_column(dtypes, name)
        ragged = array.dtype == object and len(array) and hasattr(array[0], "shape")
        tensor = tf.ragged.stack(list(array)) if ragged else tf.convert_to_tensor(array)
        found[name] = tensor if dtype is None else tf.cast(tensor, dtype)
    return found


def dataset_of(arrays: Iterable[dict[str, Any]], groups: list[Any], specs: list[Any]) -> Any:
    """A tf.data.Dataset with one element per batch: the groups of columns, as tensors."""
    tf = try_import("tensorflow", "tensorflow")
    first = next(iter(arrays), None)
    if first is None:
        raise ValueError("to_tf needs at least one row to find the types of the columns")
    for group in groups:
        names = [group] if isinstance(group, str) else group
        check_columns(list(names.values() if isinstance(names, dict) else names), list(first))
    signature = tuple(
        spec if spec is not None else _spec(tf, first, group)
        for group, spec in zip(groups, specs, strict=True)
    )

    def generate() -> Iterator[Any]:
        for batch in arrays:
            tensors = tensors_of(batch, None)
            yield tuple(_picked(tensors, group) for group in groups)

    return _generated(tf, generate, signature)


def side_by_side(
    arrays: Iterable[dict[str, Any]], features: Any, label: str | None, signature: Any
) -> Any:
    """A tf.data.Dataset of tensors with a column for each column of the batch."""
    tf = try_import("tensorflow", "tensorflow")

    def generate() -> Iterator[Any]:
        for batch in arrays:
            chosen = [name for name in batch if name != label] if features is None else features
            found = _together(batch, chosen)
            yield found if label is None else (found, batch[label])

    # What is a list for the user is a tensor for TensorFlow.
    return _generated(tf, generate, tuple(signature) if isinstance(signature, list) else signature)


def _together(batch: dict[str, Any], columns: Any) -> Any:
    if isinstance(columns, dict):
        return {key: _together(batch, names) for key, names in columns.items()}
    if any(isinstance(names, list) for names in columns):
        return tuple(_together(batch, names) for names in columns)
    check_columns(columns, list(batch))
    parts = [batch[name].reshape(len(batch[name]), -1) for name in columns]
    return np.concatenate(parts, axis=1)


def _generated(tf: Any, generate: Callable[[], Iterator[Any]], signature: Any) -> Any:
    dataset = tf.data.Dataset.from_generator(generate, output_signature=signature)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


def _picked(tensors: dict[str, Any], group: Any) -> Any:
    if isinstance(group, str):
        return tensors[group]
    if isinstance(group, dict):
        return {key: tensors[name] for key, name in group.items()}
    return {name: tensors[name] for name in group}


def _spec(tf: Any, batch: dict[str, Any], group: Any) -> Any:
    def one(name: str) -> Any:
        tensor = tensors_of({name: batch[name]}, None)[name]
        return tf.TensorSpec(shape=(None, *tensor.shape[1:]), dtype=tensor.dtype, name=name)

    if isinstance(group, str):
        return one(group)
    pairs = group.items() if isinstance(group, dict) else ((name, name) for name in group)
    return {key: one(name) for key, name in pairs}
