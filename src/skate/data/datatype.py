"""Types of columns, for expressions: `DataType.int64()`, `DataType.list(DataType.string())`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

__all__ = ["DataType"]


@dataclass(frozen=True)
class DataType:
    """A type of Arrow, NumPy or Python. Arrow's plain types are methods: `DataType.int32()`."""

    _physical_dtype: Any

    def __post_init__(self) -> None:
        if not isinstance(self._physical_dtype, (pa.DataType, np.dtype, type)):
            raise TypeError(
                f"DataType takes a type of pyarrow, NumPy or Python; got {self._physical_dtype!r}"
            )

    @classmethod
    def from_arrow(cls, arrow_type: pa.DataType) -> DataType:
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: Any) -> DataType:
        return cls(np.dtype(numpy_dtype))

    @classmethod
    def infer_dtype(cls, value: Any) -> DataType:
        """The type of a value."""
        if isinstance(value, (np.ndarray, np.generic)):
            return cls(value.dtype)
        try:
            return cls(pa.scalar(value).type)
        except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            return cls(type(value))

    @classmethod
    def list(cls, value_type: DataType) -> DataType:
        return cls(pa.list_(value_type.to_arrow_dtype()))

    @classmethod
    def large_list(cls, value_type: DataType) -> DataType:
        return cls(pa.large_list(value_type.to_arrow_dtype()))

    @classmethod
    def fixed_size_list(cls, value_type: DataType, list_size: int) -> DataType:
        return cls(pa.list_(value_type.to_arrow_dtype(), list_size))

    @classmethod
    def struct(cls, fields: Any) -> DataType:
        return cls(pa.struct([(name, kind.to_arrow_dtype()) for name, kind in fields]))

    @classmethod
    def map(cls, key_type: DataType, value_type: DataType) -> DataType:
        return cls(pa.map_(key_type.to_arrow_dtype(), value_type.to_arrow_dtype()))

    @classmethod
    def tensor(cls, shape: Any, dtype: DataType) -> DataType:
        return cls(pa.fixed_shape_tensor(dtype.to_arrow_dtype(), tuple(shape)))

    def is_arrow_type(self) -> bool:
        return isinstance(self._physical_dtype, pa.DataType)

    def is_numpy_type(self) -> bool:
        return isinstance(self._physical_dtype, np.dtype)

    def is_python_type(self) -> bool:
        return isinstance(self._physical_dtype, type)

    def to_arrow_dtype(self, values: Any = None) -> pa.DataType:
        """Arrow's type; for a Python type, that of its zero value or of the given values."""
        kind = self._physical_dtype
        if self.is_arrow_type():
            return kind
        if self.is_numpy_type():
            return pa.from_numpy_dtype(kind)
        return pa.array(values if values is not None else [kind()]).type

    def to_numpy_dtype(self) -> np.dtype[Any]:
        kind = self._physical_dtype
        found: np.dtype[Any] = np.dtype(kind.to_pandas_dtype() if self.is_arrow_type() else kind)
        return found

    def to_python_type(self) -> type:
        if not self.is_python_type():
            raise ValueError(f"{self._physical_dtype} is no Python type")
        return self._physical_dtype  # type: ignore[no-any-return]

    def __repr__(self) -> str:
        return f"DataType({self._physical_dtype})"


def _plain(name: str) -> Any:
    return classmethod(lambda cls, *arguments: cls(getattr(pa, name)(*arguments)))


for _name in (
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 string "
    "large_string binary large_binary date32 date64 timestamp time32 time64 duration null"
).split():
    setattr(DataType, _name.rstrip("_"), _plain(_name))
