"""Batches for TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skate._core.optional_imports import try_import
from skate._core.tensorflow_processes import unsplit
from skate.data._arrow.blocks import check_columns
from skate.data._arrow.schema import Schema
from skate.data._arrow.tensors import is_fixed_tensor, is_ragged_tensor, type_text
from skate.data._execution.batching import check_given, of_column

if TYPE_CHECKING:
    from skate._core.arrays import Array


def tensors_of(batch: dict[str, Array], dtypes: object) -> dict[str, object]:
    """Make a dictionary of tensors; columns of lists, or of unequal shapes, become ragged
    tensors."""
    tf = try_import("tensorflow", "tensorflow")
    check_given(dtypes, list(batch))
    found = {}
    for name, array in batch.items():
        dtype = of_column(dtypes, name)
        ragged = _holds_arrays(array)
        tensor = tf.ragged.stack(list(array)) if ragged else tf.convert_to_tensor(array)
        found[name] = tensor if dtype is None else tf.cast(tensor, dtype)
    return found


# -- tf.data -------------------------------------------------------------------------------------


class Groups:
    """The groups of columns that are the elements of a tf.data.Dataset: features, labels and maybe
    more, with TensorFlow's descriptions of them, as far as they are given."""

    def __init__(self, columns: list[object], specs: list[object]) -> None:
        self._columns = [_by_key(group) for group in columns]
        self._single = [isinstance(group, str) for group in columns]
        self._specs = specs

    @property
    def names(self) -> list[str]:
        """Of all columns that occur."""
        return list(dict.fromkeys(name for group in self._columns for name in group.values()))

    @property
    def are_described(self) -> bool:
        return all(spec is not None for spec in self._specs)

    def describe(self, schema: Schema | None) -> None:
        """Find the descriptions that were not given."""
        tf = try_import("tensorflow", "tensorflow")
        if schema is None:
            raise ValueError("to_tf needs at least one row to find the types of the columns")
        check_columns(self.names, schema.names)
        types = dict(zip(schema.names, schema.base_schema.types, strict=True))
        for place, group in enumerate(self._columns):
            if self._specs[place] is None:
                found = {key: _spec_of(tf, name, types[name]) for key, name in group.items()}
                self._specs[place] = self._whole(place, found)

    def dataset(self, arrays: Iterable[dict[str, object]]) -> Any:
        """Make a tf.data.Dataset with one element per batch."""
        tf = try_import("tensorflow", "tensorflow")
        specs = [self._spec_by_key(place) for place in range(len(self._columns))]

        def generate() -> Iterator[Any]:
            for batch in arrays:
                yield tuple(
                    self._whole(
                        place,
                        {
                            key: _tensor(tf, name, batch[name], specs[place][key])
                            for key, name in group.items()
                        },
                    )
                    for place, group in enumerate(self._columns)
                )

        return _generated(tf, generate, tuple(self._specs))

    def _whole(self, place: int, by_key: dict[str, object]) -> object:
        return next(iter(by_key.values())) if self._single[place] else by_key

    def _spec_by_key(self, place: int) -> dict[str, object]:
        given, keys = self._specs[place], list(self._columns[place])
        specs = dict.fromkeys(keys, given) if self._single[place] else given
        if not isinstance(specs, dict) or specs.keys() != set(keys):
            raise ValueError(
                f"the type specs of several columns are a dictionary with one for each of {keys}; "
                f"got {given!r}"
            )
        return specs


def _by_key(group: Any) -> dict[str, str]:
    if isinstance(group, dict):
        return group
    return {name: name for name in ([group] if isinstance(group, str) else group)}


def side_by_side(
    arrays: Iterable[dict[str, object]], features: object, label: str | None, signature: object
) -> Any:
    """Make a tf.data.Dataset of tensors with a column for each column of the batch."""
    tf = try_import("tensorflow", "tensorflow")

    def generate() -> Iterator[Any]:
        for batch in arrays:
            chosen = [name for name in batch if name != label] if features is None else features
            found = _together(batch, chosen)
            yield found if label is None else (found, batch[label])

    # What is a list for the user is a tensor for TensorFlow.
    return _generated(tf, generate, tuple(signature) if isinstance(signature, list) else signature)


def _together(batch: dict[str, Any], columns: Any) -> object:
    if isinstance(columns, dict):
        return {key: _together(batch, names) for key, names in columns.items()}
    if any(isinstance(names, list) for names in columns):
        return tuple(_together(batch, names) for names in columns)
    check_columns(columns, list(batch))
    parts = [batch[name].reshape(len(batch[name]), -1) for name in columns]
    return np.concatenate(parts, axis=1)


def _generated(
    tf: ModuleType, generate: Callable[[], Iterator[object]], signature: object
) -> object:
    return unsplit(tf.data.Dataset.from_generator(generate, output_signature=signature))


# -- columns -------------------------------------------------------------------------------------


def _spec_of(tf: ModuleType, name: str, type_: pa.DataType) -> object:
    """Describe batches of a column as TensorFlow does."""
    if is_fixed_tensor(type_):
        dtype = _dtype_of(tf, name, type_.value_type)
        return tf.TensorSpec((None, *type_.shape), dtype, name=name)
    if is_ragged_tensor(type_):
        return _ragged_spec(tf, type_.ndim, _dtype_of(tf, name, type_.value_type))
    if pa.types.is_fixed_size_list(type_) and not pa.types.is_nested(type_.value_type):
        dtype = _dtype_of(tf, name, type_.value_type)
        return tf.TensorSpec((None, type_.list_size), dtype, name=name)
    depth = 0
    while _is_list(type_):
        depth, type_ = depth + 1, type_.value_type
    dtype = _dtype_of(tf, name, type_)
    return _ragged_spec(tf, depth, dtype) if depth else tf.TensorSpec((None,), dtype, name=name)


def _ragged_spec(tf: ModuleType, depth: int, dtype: object) -> object:
    return tf.RaggedTensorSpec([None] * (depth + 1), dtype)


def _is_list(type_: pa.DataType) -> bool:
    kinds = pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list
    return any(is_kind(type_) for is_kind in kinds)


def _dtype_of(tf: ModuleType, name: str, type_: pa.DataType) -> object:
    types = pa.types
    if types.is_dictionary(type_):
        type_ = type_.value_type
    if types.is_null(type_):
        return tf.float64  # missing numbers are NaN
    if types.is_boolean(type_) or types.is_integer(type_) or types.is_floating(type_):
        return tf.as_dtype(type_.to_pandas_dtype())
    texts = types.is_string, types.is_large_string, types.is_binary, types.is_large_binary
    if any(is_text(type_) for is_text in texts):
        return tf.string
    raise TypeError(
        f"column {name!r} is of type {type_text(type_)}, of which TensorFlow makes no tensors: "
        "turn it into numbers or text first, or leave it out"
    )


def _tensor(tf: ModuleType, name: str, array: Any, spec: Any) -> object:
    """Convert a batch of a column to the tensor that the spec describes."""
    if isinstance(spec, tf.RaggedTensorSpec):
        return _ragged(tf, name, array, spec)
    if _holds_arrays(array) and len({np.shape(row) for row in array}) == 1:
        array = np.stack(list(array))
    if not spec.shape.is_compatible_with(array.shape):
        raise ValueError(
            f"column {name!r} has a batch of shape {array.shape}, or of rows of unequal shapes; "
            f"its type spec says {spec.shape}. Give another as feature_type_spec or "
            "label_type_spec, for unequal shapes a tf.RaggedTensorSpec"
        )
    if array.dtype.kind == "f" and spec.dtype.is_integer and np.isnan(array).any():
        raise ValueError(
            f"column {name!r} has missing values, of which there are none in {spec.dtype.name}: "
            "fill them (map_batches, SimpleImputer), or give a type spec of floats"
        )
    return tf.convert_to_tensor(array, spec.dtype)


def _ragged(tf: ModuleType, name: str, array: Any, spec: Any) -> object:
    rows = list(array)
    if any(row is None for row in rows):
        raise ValueError(f"column {name!r} has missing values: fill them, or filter them out")
    if any(row.dtype == object for row in rows):  # lists of lists, or of text
        return tf.ragged.constant(rows, spec.dtype, ragged_rank=spec.ragged_rank)
    if spec.ragged_rank == 1 and rows[0].ndim == 1:
        flat = tf.convert_to_tensor(np.concatenate(rows), spec.dtype)
        return tf.RaggedTensor.from_row_lengths(flat, [len(row) for row in rows], validate=False)
    found = tf.cast(tf.ragged.stack(rows), spec.dtype)
    while found.ragged_rank < spec.ragged_rank:
        found = found.with_flat_values(tf.RaggedTensor.from_tensor(found.flat_values))
    return found


def _holds_arrays(array: Any) -> bool:
    return array.dtype == object and len(array) > 0 and hasattr(array[0], "shape")
