"""Tensors as a column of a pandas frame: `frame["image"] = TensorArray(images)`."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from skate._core.optional_imports import try_import
from skate.data._arrow.tensors import (
    _array_of_objects,
    column_of_array,
    column_of_values,
    column_to_numpy,
    to_array,
)

if TYPE_CHECKING:
    from skate._core.arrays import Array


_pandas = try_import("pandas", "data")
_extensions: Any = _pandas.api.extensions


@_extensions.register_extension_dtype
class TensorDtype(_extensions.ExtensionDtype):  # type: ignore[misc]
    """The shape and type of the tensors; None for each dimension in which they differ."""

    type = np.ndarray
    kind = "O"
    _metadata = ("_shape", "_dtype")

    def __init__(self, shape: Sequence[int | None] | None, dtype: Any) -> None:
        self._shape = (None,) if shape is None else tuple(shape)
        self._dtype = np.dtype(dtype)

    @property
    def element_shape(self) -> tuple[int | None, ...]:
        return self._shape

    @property
    def element_dtype(self) -> Any:
        return self._dtype

    @property
    def is_variable_shaped(self) -> bool:
        return None in self._shape

    @property
    def name(self) -> str:
        return f"TensorDtype(shape={self._shape}, dtype={self._dtype})"

    def __str__(self) -> str:
        return self.name

    __repr__ = __str__

    @classmethod
    def construct_from_string(cls, string: str) -> TensorDtype:
        kinds = r"(?:TensorDtype|numpy\.ndarray)"  # as it is called, and was earlier
        found = re.fullmatch(rf"{kinds}\(shape=\((.*)\), dtype=(\w+)\)", string)
        if found is None:
            raise TypeError(f"a {cls.__name__} has another name than {string!r}")
        sizes = [part.strip() for part in found[1].split(",") if part.strip()]
        return cls([None if size == "None" else int(size) for size in sizes], found[2])

    @classmethod
    def construct_array_type(cls) -> Any:
        return TensorArray

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> TensorArray:
        """Return the column of a table that was made of a frame with tensors."""
        chunks = getattr(array, "chunks", [array])
        return TensorArray(column_to_numpy(pa.chunked_array(chunks, array.type)))


class ObjectsDtype(_extensions.ExtensionDtype):  # type: ignore[misc]
    """The type by which pandas asks for Python objects of a table; their column is a usual one."""

    type = object
    name = "object"

    @classmethod
    def construct_array_type(cls) -> Any:
        return _pandas.arrays.NumpyExtensionArray

    def __from_arrow__(self, array: pa.Array | pa.ChunkedArray) -> Any:
        """Return the objects of a column of a table."""
        chunks = getattr(array, "chunks", [array])
        objects = column_to_numpy(pa.chunked_array(chunks, array.type))
        return _pandas.arrays.NumpyExtensionArray(objects)


def _entries(values: Any) -> Array:
    """Make one array of all tensors, or an array of objects if their shapes differ."""
    if isinstance(values, TensorArray):
        return values._tensors
    if isinstance(values, np.ndarray) and values.dtype.kind != "O":
        return values
    entries = [to_array(value) for value in values]
    strange = [entry for entry in entries if entry.dtype.kind == "O" and entry.ndim == 0]
    if any(entry.item() is not None for entry in strange):
        raise TypeError(f"tensors hold numbers, truth values, text or times; got {values!r}")
    if entries and len({entry.shape for entry in entries}) == 1:
        return np.stack(entries)
    return _array_of_objects(entries)


class TensorArray(_extensions.ExtensionArray):  # type: ignore[misc]
    """A column of tensors, from an array with one entry per row or from a list of arrays."""

    SUPPORTED_REDUCERS: ClassVar[dict[str, Callable[..., Any]]] = {
        "sum": np.sum,
        "all": np.all,
        "any": np.any,
        "min": np.min,
        "max": np.max,
        "mean": np.mean,
        "median": np.median,
        "prod": np.prod,
        "std": np.std,
        "var": np.var,
    }

    def __init__(self, values: object) -> None:
        self._tensors = _entries(values)

    @classmethod
    def _from_sequence(cls, scalars: Any, dtype: object = None, copy: bool = False) -> TensorArray:
        return cls(np.copy(scalars) if copy else scalars)

    @classmethod
    def _from_factorized(cls, values: object, original: TensorArray) -> TensorArray:
        raise NotImplementedError("tensors cannot be counted as categories")

    @classmethod
    def _concat_same_type(cls, to_concat: Sequence[TensorArray]) -> TensorArray:
        return cls([tensor for part in to_concat for tensor in part._tensors])

    @property
    def dtype(self) -> TensorDtype:
        if self._tensors.dtype.kind != "O":
            return TensorDtype(self._tensors.shape[1:], self._tensors.dtype)
        first = self._tensors[0] if len(self._tensors) else np.empty(0)
        return TensorDtype((None,) * first.ndim, first.dtype)

    @property
    def is_variable_shaped(self) -> bool:
        return self.dtype.is_variable_shaped

    @property
    def nbytes(self) -> int:
        return sum(np.asarray(tensor).nbytes for tensor in self._tensors)

    @property
    def numpy_shape(self) -> Any:
        """The shape of all tensors in one array."""
        return self._tensors.shape

    @property
    def numpy_ndim(self) -> int:
        """The number of dimensions of that array."""
        return int(self._tensors.ndim)

    @property
    def numpy_dtype(self) -> np.dtype[Any]:
        """The type of its numbers."""
        kind: np.dtype[Any] = self._tensors.dtype
        return kind

    def __len__(self) -> int:
        return len(self._tensors)

    def __getitem__(self, item: int | slice | Array) -> Any:
        if isinstance(item, (int, np.integer)):
            return self._tensors[item]
        return type(self)(self._tensors[_pandas.api.indexers.check_array_indexer(self, item)])

    def __setitem__(self, item: int | slice | Array, value: object) -> None:
        self._tensors[item] = value._tensors if isinstance(value, TensorArray) else value

    def isna(self) -> Array:
        if self._tensors.dtype.kind != "O":
            return np.zeros(len(self), bool)
        return np.array([tensor is None for tensor in self._tensors], bool)

    def take(
        self, indices: object, allow_fill: bool = False, fill_value: object = None
    ) -> TensorArray:
        positions = np.asarray(indices)
        if not allow_fill:
            return type(self)(self._tensors[positions])
        taken = [None if at < 0 else self._tensors[at] for at in positions]
        return type(self)(taken if not (positions < 0).any() else _array_of_objects(taken))

    def copy(self) -> TensorArray:
        return type(self)(self._tensors.copy())

    def to_numpy(self, dtype: Any = None, copy: bool = False, na_value: object = None) -> Any:
        array = self._tensors if dtype is None else self._tensors.astype(dtype)
        return array.copy() if copy else array

    def __array__(self, dtype: object = None, copy: bool | None = None) -> Array:
        array: np.ndarray[Any, Any] = self.to_numpy(dtype, bool(copy))
        return array

    def __float__(self) -> float:
        """Return the only number of the only tensor."""
        return float(self._tensors.item())

    def __arrow_array__(self, type: pa.DataType | None = None) -> pa.Array:
        if self._tensors.dtype.kind != "O":
            return column_of_array(self._tensors)
        return column_of_values(list(self._tensors))

    def __repr__(self) -> str:
        return f"TensorArray({self._tensors!r})"

    def _formatter(self, boxed: bool = False) -> Callable[[object], str]:
        """Return a function that writes a tensor in one line."""
        return lambda tensor: np.array2string(np.asarray(tensor), separator=", ").replace("\n", "")

    def _reduce(self, name: str, *, skipna: bool = True, **kwargs: object) -> Any:
        known = self.SUPPORTED_REDUCERS
        if name not in known:
            raise TypeError(f"tensors have no {name!r}; there are {', '.join(known)}")
        freedom = {"ddof": kwargs.get("ddof", 1)} if name in ("std", "var") else {}
        return known[name](self._tensors, axis=0, **freedom)

    @classmethod
    def _create_method(cls, op: Callable[[object, object], object]) -> Callable[..., object]:
        def method(self: TensorArray, other: object) -> Any:
            if isinstance(other, (_pandas.Series, _pandas.DataFrame, _pandas.Index)):
                return NotImplemented
            right = other._tensors if isinstance(other, TensorArray) else other
            return cls(op(self._tensors, right))

        return method

    @classmethod
    def _add_operators(cls) -> None:
        names = "add sub mul truediv floordiv mod pow eq ne lt gt le ge and_ or_".split()
        for name in names:
            dunder = f"__{name.strip('_')}__"
            setattr(cls, dunder, cls._create_method(getattr(operator, name)))
        for name in ("add", "sub", "mul", "truediv", "floordiv", "mod", "pow"):
            swapped = _swapped(getattr(operator, name))
            setattr(cls, f"__r{name}__", cls._create_method(swapped))


def _swapped(op: Callable[[object, object], object]) -> Callable[..., object]:
    return lambda left, right: op(right, left)


TensorArray._add_operators()
