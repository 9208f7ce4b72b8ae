"""Columns of tensors and of objects, under the names that Ray gives their types.

A column of tensors of one shape has Arrow's own type, of several shapes `RaggedTensorType`, see
`skate.data._arrow.tensors`. So the types here only make and recognise those: an array of one is an
array of the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from skate._core.public_names import name_publicly
from skate.data._arrow import tensors
from skate.data._arrow.pandas_tensors import TensorArray, TensorDtype
from skate.data._arrow.tensor_format import FixedShapeTensorFormat

if TYPE_CHECKING:
    from skate._core.arrays import Array


TensorArrayElement = np.ndarray
FixedShapeTensorType = pa.FixedShapeTensorType
FixedShapeTensorArray = pa.FixedShapeTensorArray
ArrowPythonObjectType = tensors.ObjectType


class ArrowConversionError(ValueError):
    """Values that no column can hold."""


class _Recognised(type):
    """A name for something of another type: `isinstance` asks the class what it recognises."""

    _recognises: Callable[[Any], bool]

    def __instancecheck__(cls, value: object) -> bool:
        return cls._recognises(value)


class ArrowTensorType(metaclass=_Recognised):
    """The type of tensors of one shape: `ArrowTensorType((2, 2), pa.int64())`."""

    def __new__(cls, shape: Sequence[int], dtype: pa.DataType) -> Any:
        return pa.fixed_shape_tensor(dtype, tuple(shape))

    _recognises = staticmethod(tensors.is_fixed_tensor)


class ArrowTensorTypeV2(ArrowTensorType):
    """The same: Ray has two, for less and more than 2 GB."""


class ArrowVariableShapedTensorType(metaclass=_Recognised):
    """The type of tensors of several shapes."""

    def __new__(cls, dtype: pa.DataType, ndim: int) -> Any:
        return tensors.RaggedTensorType(dtype, ndim)

    _recognises = staticmethod(tensors.is_ragged_tensor)


def _is_tensor_column(value: object) -> bool:
    return isinstance(value, pa.Array) and tensors.is_tensor(value.type)


class ArrowTensorArray(metaclass=_Recognised):
    """A column of tensors: `ArrowTensorArray.from_numpy(array)`, one entry per row."""

    _recognises = staticmethod(_is_tensor_column)

    @staticmethod
    def from_numpy(arr: Any, column_name: str | None = None) -> pa.Array:
        """Make the column of these tensors; of several shapes, too."""
        if isinstance(arr, np.ndarray) and arr.dtype.kind != "O":
            return tensors.column_of_array(arr)
        return _column_of_tensors(list(arr), column_name)


class ArrowVariableShapedTensorArray(ArrowTensorArray):
    """A column of tensors of several shapes."""

    @staticmethod
    def from_numpy(arr: object, column_name: str | None = None) -> pa.Array:
        if not isinstance(arr, (np.ndarray, Sequence)) or not len(arr):
            raise ValueError(f"tensors come as a list or an array that is not empty; got {arr!r}")
        return _column_of_tensors(list(arr), column_name)


def _column_of_tensors(values: list[Any], column_name: str | None) -> pa.Array:
    column = tensors.column_of_values([_with_nan(np.asarray(value)) for value in values])
    if tensors.is_object(column.type):
        shapes = {np.shape(value) for value in values}
        raise ArrowConversionError(
            f"tensors of one column have the same number of dimensions and numbers as entries; "
            f"got the shapes {sorted(shapes)} in column {column_name!r}"
        )
    return column


def _with_nan(tensor: Array) -> Array:
    """Return a tensor of numbers of which some are missing as one of numbers and NaN."""
    if tensor.dtype.kind != "O":
        return tensor
    try:
        numbers = pa.array(np.ravel(tensor)).to_numpy(zero_copy_only=False)
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        return tensor
    shaped: Array = numbers.reshape(tensor.shape)
    return shaped


class ArrowPythonObjectArray(metaclass=_Recognised):
    """A column of objects that no type of Arrow fits."""

    _recognises = staticmethod(
        lambda value: isinstance(value, pa.Array) and tensors.is_object(value.type)
    )

    @staticmethod
    def from_objects(objects: Sequence[object]) -> pa.Array:
        return tensors._objects(objects)


def get_arrow_extension_tensor_types() -> tuple[type, ...]:
    """Return all types of columns of tensors."""
    return (pa.FixedShapeTensorType, tensors.RaggedTensorType)


def get_arrow_extension_fixed_shape_tensor_types() -> tuple[type, ...]:
    """Return all types of columns of tensors of one shape."""
    return (pa.FixedShapeTensorType,)


def create_arrow_fixed_shape_tensor_type(shape: Sequence[int], dtype: pa.DataType) -> pa.DataType:
    """Make the type of tensors of one shape."""
    return pa.fixed_shape_tensor(dtype, tuple(shape))


def _create_possibly_ragged_ndarray(values: Any) -> Array:
    """Make one array of all tensors if they have one shape, else an array of objects."""
    arrays = [np.asarray(value) for value in values]
    if len({array.shape for array in arrays}) == 1:
        return np.stack(arrays)
    return create_ragged_ndarray(arrays)


def create_ragged_ndarray(values: Sequence[object]) -> Array:
    """Make an array of objects: one tensor for each array or list, other values as they are."""
    lists = (list, tuple, np.ndarray)
    return tensors._array_of_objects(
        [np.asarray(value) if isinstance(value, lists) else value for value in values]
    )


__all__ = [
    "ArrowConversionError",
    "ArrowPythonObjectArray",
    "ArrowPythonObjectType",
    "ArrowTensorArray",
    "ArrowTensorType",
    "ArrowTensorTypeV2",
    "ArrowVariableShapedTensorArray",
    "ArrowVariableShapedTensorType",
    "FixedShapeTensorArray",
    "FixedShapeTensorFormat",
    "FixedShapeTensorType",
    "TensorArray",
    "TensorArrayElement",
    "TensorDtype",
    "create_arrow_fixed_shape_tensor_type",
    "create_ragged_ndarray",
    "get_arrow_extension_fixed_shape_tensor_types",
    "get_arrow_extension_tensor_types",
]

name_publicly(__name__)
