"""Columns: NumPy arrays and Python values to Arrow and back.

What a column is made of, and what it becomes:

    numbers, booleans, dates, text, bytes, lists, dictionaries   Arrow's own types
    arrays of one shape (NumPy, torch, TensorFlow)               Arrow's FixedShapeTensor
    arrays of several shapes, equal number of dimensions         `RaggedTensorType`, laid out as
                                                                 arrow.variable_shape_tensor
    any other Python object                                      `ObjectType`: pickled bytes
"""

from __future__ import annotations

import math
import pickle
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import cloudpickle
import numpy as np
import pyarrow as pa

from skate._core.optional_imports import ray_is_skate
from skate.data._arrow.dictionaries import without_dictionary
from skate.data._arrow.times import exact_type, in_units_of_arrow, is_nat

if TYPE_CHECKING:
    from skate._core.arrays import Array, Dtype


OBJECT_NAME = "skate.object"
_KINDS_OF_ARROW = "biufmM"  # NumPy kinds of which Arrow has an exact counterpart

_RAGGED_IDS = [pa.large_list(pa.null()).id, pa.list_(pa.null(), 1).id]


class RaggedTensorType(pa.ExtensionType):  # type: ignore[misc]
    """Tensors of differing shapes: `struct<data: list<T>, shape: fixed_size_list<int32>[ndim]>`,
    the layout that the Arrow format gives to arrow.variable_shape_tensor."""

    def __init__(self, value_type: pa.DataType, ndim: int) -> None:
        self.value_type = value_type
        self.ndim = ndim
        storage = pa.struct(
            [("data", pa.large_list(value_type)), ("shape", pa.list_(pa.int32(), ndim))]
        )
        super().__init__(storage, "skate.ragged_tensor")

    def __hash__(self) -> int:
        return hash((type(self), self.value_type, self.ndim))

    @property
    def scalar_type(self) -> pa.DataType:
        """The type of the numbers, as Ray calls it."""
        return self.value_type

    def __arrow_ext_class__(self) -> type[RaggedTensorArray]:
        return RaggedTensorArray

    def __arrow_ext_scalar_class__(self) -> type[RaggedTensorScalar]:
        return RaggedTensorScalar

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(
        cls, storage_type: pa.DataType, serialized: bytes
    ) -> RaggedTensorType:
        types = [storage_type.field(n).type for n in range(storage_type.num_fields)]
        if not pa.types.is_struct(storage_type) or [type_.id for type_ in types] != _RAGGED_IDS:
            raise ValueError(f"tensors of several shapes are not stored as {storage_type}")
        return cls(types[0].value_type, types[1].list_size)


class RaggedTensorArray(pa.ExtensionArray):  # type: ignore[misc]
    """A column of tensors of differing shapes, whose entries are NumPy arrays."""

    def __getitem__(self, key: int | slice) -> Any:
        if isinstance(key, slice):
            return super().__getitem__(key)
        return _ragged_rows(self.slice(range(len(self))[key], 1))[0]

    def __iter__(self) -> Iterator[Any]:
        return iter(_ragged_rows(self))

    def to_numpy(self, zero_copy_only: bool = True, **options: object) -> Array:
        """Return an array of arrays, which are not copied in any case."""
        return _ragged_to_numpy(_ragged_rows(self))

    def to_pylist(self, **options: object) -> list[Any]:
        return _ragged_rows(self)


class RaggedTensorScalar(pa.ExtensionScalar):  # type: ignore[misc]
    """A tensor of a column in chunks."""

    def as_py(self, **options: object) -> Any:
        return self.__array__() if self.is_valid else None

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Array:
        numbers = self.value["data"].values.to_numpy(zero_copy_only=False)
        tensor: np.ndarray[Any, Any] = numbers.reshape(self.value["shape"].as_py())
        return tensor if dtype is None else tensor.astype(dtype)


class ObjectType(pa.ExtensionType):  # type: ignore[misc]
    """Python objects that no Arrow type fits, as pickles.

    Arrow is not told about this type, so that reading a file never makes one: a column has it only
    if this session pickled its values, or the user trusts those of a file; see `foreign.py`.
    """

    def __init__(self) -> None:
        super().__init__(pa.large_binary(), OBJECT_NAME)

    def __arrow_ext_serialize__(self) -> bytes:
        return b""

    @classmethod
    def __arrow_ext_deserialize__(cls, storage_type: pa.DataType, serialized: bytes) -> ObjectType:
        return cls()

    def to_pandas_dtype(self) -> Any:
        """Say how `Table.to_pandas` makes a column of it: of the objects themselves."""
        from skate.data._arrow.pandas_tensors import ObjectsDtype

        return ObjectsDtype()


with suppress(pa.ArrowKeyError):  # known by an earlier import of this module
    pa.register_extension_type(RaggedTensorType(pa.uint8(), 1))


# -- kinds of types -----------------------------------------------------------------------------


def is_fixed_tensor(type_: pa.DataType) -> bool:
    return isinstance(type_, pa.FixedShapeTensorType)


def is_ragged_tensor(type_: pa.DataType) -> bool:
    return isinstance(type_, RaggedTensorType)


def is_tensor(type_: pa.DataType) -> bool:
    return is_fixed_tensor(type_) or is_ragged_tensor(type_)


def is_object(type_: pa.DataType) -> bool:
    return isinstance(type_, ObjectType)


def type_text(type_: pa.DataType) -> str:
    """Write a type as a printed schema shows it; in programs that `import ray`, as Ray does."""
    if not is_tensor(type_):
        return "object" if is_object(type_) else str(type_)
    is_fixed = is_fixed_tensor(type_)
    size = f"shape={tuple(type_.shape)}" if is_fixed else f"ndim={type_.ndim}"
    if not ray_is_skate():
        return f"numpy.ndarray({size}, dtype={_dtype(type_)})"
    name = "ArrowTensorTypeV2" if is_fixed else "ArrowVariableShapedTensorType"
    return f"{name}({size}, dtype={type_.value_type})"


def _dtype(type_: pa.DataType) -> Dtype:
    dtype: np.dtype[Any] = np.dtype(type_.value_type.to_pandas_dtype())
    return dtype


# -- to Arrow -----------------------------------------------------------------------------------


def to_array(value: Any) -> Array:
    """Return a NumPy view or copy of an array of any library."""
    if isinstance(value, np.ndarray):
        return value
    if hasattr(value, "detach"):  # torch: a tensor that needs gradients has no __array__
        value = value.detach().cpu()
        unknown = str(value.dtype) == "torch.bfloat16"  # NumPy has no such type
        array: Array = (value.float() if unknown else value).numpy()
        return array
    return np.asarray(value)


def column_of_array(array: Array) -> pa.Array:
    """Make the column whose rows are the entries along the first axis."""
    if array.ndim == 0:
        raise ValueError(
            f"a column needs one entry per row; got the single value {array.item()!r}"
        )
    if array.dtype.kind not in _KINDS_OF_ARROW:
        return column_of_values(array.tolist() if array.dtype.kind != "O" else list(array))
    if array.ndim == 1:
        return _numbers(array)
    if math.prod(array.shape[1:]) == 0:
        return _ragged(list(array), np.empty((0, *array.shape[2:]), array.dtype))
    return _fixed(array)


def _numbers(array: Array) -> pa.Array:
    """Do as `pa.array(array)`, which would first import pandas, to ask whether this is one of its
    own: half a second in each new process."""
    if array.dtype.kind not in "iufb" or not array.dtype.isnative:
        return pa.array(array.astype(in_units_of_arrow(array.dtype), copy=False))
    is_bool = array.dtype.kind == "b"
    memory = pa.py_buffer(
        np.packbits(array, bitorder="little") if is_bool else np.ascontiguousarray(array)
    )
    return pa.Array.from_buffers(pa.from_numpy_dtype(array.dtype), len(array), [None, memory])


def _fixed(array: Array) -> pa.Array:
    flat = _numbers(np.ascontiguousarray(array).reshape(-1))
    storage = pa.FixedSizeListArray.from_arrays(flat, math.prod(array.shape[1:]))
    return pa.ExtensionArray.from_storage(
        pa.fixed_shape_tensor(flat.type, array.shape[1:]), storage
    )


def _ragged(arrays: Sequence[Array | None], *like: Array) -> pa.Array:
    """Make the column of these tensors; `like` says what they are where there may be none."""
    present = [*like, *(array for array in arrays if array is not None)]
    dtype = in_units_of_arrow(np.result_type(*present))
    ndim = present[0].ndim
    sizes = [0 if array is None else array.size for array in arrays]
    offsets = np.zeros(len(arrays) + 1, np.int64)
    np.cumsum(sizes, out=offsets[1:])
    flat = np.concatenate([np.ravel(array).astype(dtype, copy=False) for array in present])
    shapes = [[0] * ndim if array is None else array.shape for array in arrays]
    missing = pa.array([array is None for array in arrays], pa.bool_())
    type_ = RaggedTensorType(pa.from_numpy_dtype(dtype), ndim)
    storage = pa.StructArray.from_arrays(
        [
            pa.LargeListArray.from_arrays(offsets, _numbers(flat)),
            pa.FixedSizeListArray.from_arrays(
                _numbers(np.asarray(shapes, np.int32).ravel()), ndim
            ),
        ],
        fields=list(type_.storage_type),
        mask=missing,
    )
    return pa.ExtensionArray.from_storage(type_, storage)


def column_of_values(values: Sequence[object]) -> pa.Array:
    """Make the column of these Python values, one per row."""
    first = next((value for value in values if value is not None and not is_nat(value)), None)
    if is_array(first):
        return _column_of_arrays(values)
    if isinstance(first, np.generic) and first.dtype.kind in _KINDS_OF_ARROW:
        column = _column_of_numpy_scalars(values)
        if column is not None:
            return column
    try:
        return pa.array(values, exact_type(first, values))
    except (ValueError, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        if not any(map(is_nat, values)):
            return _objects(values)
        return column_of_values([None if is_nat(value) else value for value in values])


def is_array(value: object) -> bool:
    """Return whether it is an array or tensor of NumPy, torch, TensorFlow or the like."""
    if isinstance(value, np.ndarray):
        return True
    return (
        hasattr(value, "__array__")
        and hasattr(value, "shape")
        and hasattr(value, "dtype")
        and (not isinstance(value, np.generic))
    )


def _column_of_numpy_scalars(values: Sequence[object]) -> pa.Array | None:
    kinds = {type(value) for value in values}
    return _numbers(np.array(values)) if len(kinds) == 1 else None


def _column_of_arrays(values: Sequence[object]) -> pa.Array:
    if not all(value is None or is_array(value) for value in values):
        return _objects(values)
    arrays = [None if value is None else to_array(value) for value in values]
    present = [array for array in arrays if array is not None]
    shapes = {array.shape for array in present}
    if shapes == {()} and all(array.dtype.kind in "SU" for array in present):
        return pa.array([None if array is None else array.item() for array in arrays])
    if any(array.dtype.kind not in _KINDS_OF_ARROW for array in present):
        return _objects(values)
    if len(shapes) == 1 and len(present) == len(arrays):
        return column_of_array(np.stack(present))
    if shapes == {()}:
        return pa.array([None if array is None else array.item() for array in arrays])
    if len({len(shape) for shape in shapes}) == 1:
        return _ragged(arrays)
    return _objects(values)


def _objects(values: Iterable[object]) -> pa.Array:
    pickles = [None if value is None else cloudpickle.dumps(value) for value in values]
    return pa.ExtensionArray.from_storage(ObjectType(), pa.array(pickles, pa.large_binary()))


def objects_of_pickles(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Make the column of the objects of which `column` has the pickles."""
    chunks = [chunk.cast(pa.large_binary()) for chunk in column.chunks]
    objects = [pa.ExtensionArray.from_storage(ObjectType(), chunk) for chunk in chunks]
    return pa.chunked_array(objects, ObjectType())


# -- from Arrow ---------------------------------------------------------------------------------

# Arrow knows this too (`to_pandas_dtype`), but up to version 25 imports pandas to say so.
_DTYPES_OF_NUMBERS: dict[int, Dtype] = {  # by the id: types of other libraries have no hash
    getattr(pa, name)().id: np.dtype(name)
    for name in (
        "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64",
        "float16", "float32", "float64",
    )
}  # fmt: skip


def column_to_numpy(column: pa.ChunkedArray, writable: bool = False) -> Array:
    """Make one array of the column: a view where possible. Ragged tensors, lists, text, and
    whatever has no NumPy type come as an array of objects; missing numbers as NaN. A view is
    read-only, unless it is to be `writable` and the memory is."""
    type_ = column.type
    if is_fixed_tensor(type_):
        return _fixed_to_numpy(column, writable)
    if is_tensor(type_):
        return _ragged_to_numpy(column_to_rows(column))
    if is_object(type_):
        return _array_of_objects(column_to_rows(column))
    if pa.types.is_null(type_):
        return np.full(len(column), np.nan)
    if pa.types.is_dictionary(type_):
        column = column.cast(type_.value_type)
    if column.num_chunks == 1:
        return _array_of(column.chunk(0), writable)
    if column.num_chunks and _has_plain_numbers(column):
        return np.concatenate([_array_of(chunk) for chunk in column.chunks])
    array: Array = column.to_numpy()
    return array


def _array_of(chunk: pa.Array, writable: bool = False) -> Array:
    """Do as `chunk.to_numpy()`, which would first import pandas; see `_numbers`."""
    if not _has_plain_numbers(chunk):
        array: Array = chunk.to_numpy(zero_copy_only=False)
        return array
    dtype, memory = _DTYPES_OF_NUMBERS[chunk.type.id], chunk.buffers()[1]
    if memory is None:
        return np.empty(0, dtype)
    array = np.frombuffer(memory, dtype, len(chunk), chunk.offset * dtype.itemsize)
    if not writable:
        array.flags.writeable = False
    return array


def _has_plain_numbers(column: pa.Array | pa.ChunkedArray) -> bool:
    return column.type.id in _DTYPES_OF_NUMBERS and not column.null_count


def _ragged_to_numpy(rows: Sequence[Array | None]) -> Array:
    """Make an array of objects, or one array of tensors without numbers if they have one shape:
    Arrow's type for those needs numbers to count, so that these are ragged there."""
    shapes = {None if row is None else row.shape for row in rows}
    shape = shapes.pop() if len(shapes) == 1 else None
    if shape is None or 0 not in shape:
        return _array_of_objects(rows)
    dtype = next(row.dtype for row in rows if row is not None)
    return np.empty((len(rows), *shape), dtype)


def _fixed_to_numpy(column: pa.ChunkedArray, writable: bool) -> Array:
    if column.null_count:
        return _array_of_objects(column_to_rows(column))
    parts = [_fixed_chunk(chunk, writable) for chunk in column.chunks]
    if not parts:
        return np.empty((0, *column.type.shape), _dtype(column.type))
    return parts[0] if len(parts) == 1 else np.concatenate(parts)


def _fixed_chunk(chunk: pa.Array, writable: bool = False) -> Array:
    if chunk.type.permutation is not None:
        tensor: Array = chunk.to_numpy_ndarray()
        return tensor
    size = math.prod(chunk.type.shape)
    storage = chunk.storage
    flat = storage.values.slice(storage.offset * size, len(storage) * size)
    return _array_of(flat, writable).reshape(len(storage), *chunk.type.shape)


def nested_lists(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Turn tensors of one shape into lists of lists, in the order of their numbers in memory."""
    shape = column.type.shape
    chunks = [_nested(chunk.storage, shape) for chunk in column.chunks]
    return pa.chunked_array(chunks, lists_of(column.type.value_type, len(shape)))


def lists_of(type_: pa.DataType, depth: int) -> pa.DataType:
    """Return the type of lists of lists … of values, so many deep."""
    for _ in range(depth):
        type_ = pa.list_(type_)
    return type_


def _nested(storage: pa.Array, shape: Sequence[int]) -> pa.Array:
    """Build the outermost list last: each level puts neighbours of the one below together."""
    rows, missing = len(storage), storage.is_null()
    values = storage.values.slice(storage.offset * math.prod(shape), rows * math.prod(shape))
    for level in range(len(shape) - 1, -1, -1):
        offsets = np.arange(rows * math.prod(shape[:level]) + 1, dtype=np.int32) * shape[level]
        mask = missing if level == 0 and storage.null_count else None
        values = pa.ListArray.from_arrays(offsets, values, mask=mask)
    return values


def _array_of_objects(values: Sequence[object]) -> Array:
    array = np.empty(len(values), object)
    for number, value in enumerate(values):
        array[number] = value
    return array


def column_to_rows(column: pa.ChunkedArray) -> list[Any]:
    """List one Python value per row: arrays for tensors, the objects themselves for objects."""
    type_ = column.type
    if is_fixed_tensor(type_):
        rows = [row for chunk in column.chunks for row in _fixed_chunk(chunk)]
    elif is_ragged_tensor(type_):
        return [row for chunk in column.chunks for row in _ragged_rows(chunk)]
    elif is_object(type_):
        pickles = (item for chunk in column.chunks for item in chunk.storage.to_pylist())
        return [None if item is None else pickle.loads(item) for item in pickles]
    else:
        values: list[Any] = column.to_pylist()
        return values
    if column.null_count:
        valid = column.is_valid().to_pylist()
        rows = [row if there else None for row, there in zip(rows, valid, strict=True)]
    return rows


def _ragged_rows(chunk: pa.Array) -> list[Any]:
    storage = chunk.storage
    data, shape = storage.field("data"), storage.field("shape")
    offsets, flat = _array_of(data.offsets), _array_of(data.values)
    ndim = chunk.type.ndim
    begin = shape.offset * ndim
    sizes = shape.values.slice(begin, len(shape) * ndim)  # files keep none for what is missing
    sizes = _array_of(sizes.fill_null(0)).reshape(-1, ndim)
    valid = storage.is_valid().to_numpy(zero_copy_only=False)
    return [
        flat[offsets[i] : offsets[i + 1]].reshape(sizes[i]) if valid[i] else None
        for i in range(len(chunk))
    ]


# -- columns of unequal types -------------------------------------------------------------------


def unify(columns: Sequence[pa.ChunkedArray], name: str) -> pa.ChunkedArray:
    """Make one column out of several that differ in type."""
    columns = _without_empty_lists(columns)
    present = [column for column in columns if not pa.types.is_null(column.type)]
    types = {column.type for column in present}
    if len(types) <= 1:
        type_ = next(iter(types), pa.null())
        return pa.chunked_array(
            [chunk for column in columns for chunk in column.cast(type_).chunks], type_
        )
    if any(is_tensor(type_) or is_object(type_) for type_ in types):
        values = [value for column in columns for value in column_to_rows(column)]
        if not values:  # a schema is asked for
            examples = [value for type_ in types for value in _examples(type_)]
            return pa.chunked_array([], column_of_values(examples).type)
        return pa.chunked_array([column_of_values(values)])
    if any(map(pa.types.is_dictionary, types)):
        values = unify([without_dictionary(column) for column in columns], name)
        return values.dictionary_encode() if all(map(pa.types.is_dictionary, types)) else values
    try:
        tables = [pa.table({name: column}) for column in columns]
        return pa.concat_tables(tables, promote_options="permissive")[name]
    except (pa.ArrowInvalid, pa.ArrowTypeError):
        values = [value for column in columns for value in column.to_pylist()]
        return pa.chunked_array([_objects(values)])


def _examples(type_: pa.DataType) -> Sequence[object]:
    """Make values that only a column of this type has, or of a more general one."""
    if is_fixed_tensor(type_):
        return [np.zeros(type_.shape, _dtype(type_))]
    if is_ragged_tensor(type_):
        return [np.zeros([size] * type_.ndim, _dtype(type_)) for size in (1, 2)]
    return [object()]


def _without_empty_lists(columns: Sequence[pa.ChunkedArray]) -> Sequence[pa.ChunkedArray]:
    """Replace columns of nothing but empty lists, whose type nobody knows, by missing values if
    the others are plain values."""
    others = {column.type for column in columns if not _says_no_type(column.type)} - {pa.null()}
    if len(others) == 0 or any(map(_has_parts, others)):
        return columns
    return [
        pa.chunked_array([pa.nulls(len(column))])
        if _says_no_type(column.type) and not any(len(chunk.flatten()) for chunk in column.chunks)
        else column
        for column in columns
    ]


def _says_no_type(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) and pa.types.is_null(type_.value_type))


def _has_parts(type_: pa.DataType) -> bool:
    return bool(pa.types.is_nested(type_) or is_tensor(type_) or is_object(type_))
