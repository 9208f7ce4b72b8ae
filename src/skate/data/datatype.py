"""Types of columns, for expressions: `DataType.int64()`, `DataType.list(DataType.string())`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data._arrow.tensors import RaggedTensorType, type_text
from skate.data._arrow.type_kinds import is_kind, is_number

__all__ = ["DataType", "TypeCategory"]


class TypeCategory(str, Enum):
    """Kinds of types that have types in them, and times; for `DataType.is_of`."""

    LIST = "list"
    LARGE_LIST = "large_list"
    STRUCT = "struct"
    MAP = "map"
    TENSOR = "tensor"
    TEMPORAL = "temporal"


@dataclass(frozen=True, eq=False)
class DataType:
    """A type of Arrow, NumPy or Python. Arrow's plain types are methods: `DataType.int32()`."""

    _physical_dtype: Any

    def __post_init__(self) -> None:
        if not isinstance(self._physical_dtype, (pa.DataType, np.dtype, type)):
            raise TypeError(
                "DataType supports only PyArrow DataType, NumPy dtype, or Python type; got "
                f"{self._physical_dtype!r}"
            )

    @classmethod
    def from_arrow(cls, arrow_type: pa.DataType) -> DataType:
        return cls(arrow_type)

    @classmethod
    def from_numpy(cls, numpy_dtype: Any) -> DataType:
        return cls(np.dtype(numpy_dtype))

    @classmethod
    def from_dtype(cls, dtype: Any) -> DataType | None:
        """Return the type that one of any library stands for; None for what is no type."""
        if dtype is None or isinstance(dtype, DataType):
            return dtype
        arrow = getattr(dtype, "pyarrow_dtype", dtype)  # what pandas calls that of its own
        if isinstance(arrow, pa.DataType):
            return cls(arrow)
        if isinstance(dtype, type) and not issubclass(dtype, np.generic):
            return cls(dtype)
        if getattr(dtype, "name", None) in ("string", "str") and not isinstance(dtype, np.dtype):
            return cls(pa.string())
        try:
            return cls(np.dtype(getattr(dtype, "numpy_dtype", dtype)))
        except (TypeError, ValueError):
            return None

    @classmethod
    def infer_dtype(cls, value: object) -> DataType:
        """Find the type of a value."""
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

    @classmethod
    def variable_shaped_tensor(cls, dtype: DataType, ndim: int = 2) -> DataType:
        return cls(RaggedTensorType(dtype.to_arrow_dtype(), ndim))

    @classmethod
    def temporal(
        cls, temporal_type: str, unit: str | None = None, tz: str | None = None
    ) -> DataType:
        """Return a type of times: `DataType.temporal("timestamp", "ms", tz="UTC")`."""
        kind = temporal_type.lower()
        if kind not in _TIMES:
            raise ValueError(
                f"Invalid temporal_type: it takes {', '.join(_TIMES)}; got {temporal_type!r}"
            )
        units = _TIMES[kind]
        if kind == "timestamp":
            return cls(pa.timestamp(unit or "us", tz))
        if unit is not None and unit not in units:
            allowed = " or ".join(map(repr, units)) or "None"
            raise ValueError(f"{kind} unit must be {allowed}; got {unit!r}")
        return cls(getattr(pa, kind)(*([unit or units[0]] if units else [])))

    def is_of(self, category: TypeCategory | str) -> bool:
        """Return whether the type is of this category; False for one that does not exist."""
        known = {member.value for member in TypeCategory}
        name = str(getattr(category, "value", category))
        return name in known and is_kind(self._physical_dtype, name)

    def is_numerical_type(self) -> bool:
        return is_number(self._physical_dtype)

    def is_arrow_type(self) -> bool:
        return isinstance(self._physical_dtype, pa.DataType)

    def is_numpy_type(self) -> bool:
        return isinstance(self._physical_dtype, np.dtype)

    def is_python_type(self) -> bool:
        return isinstance(self._physical_dtype, type)

    def to_arrow_dtype(self, values: object = None) -> pa.DataType:
        """Return Arrow's type; for a Python type, that of its zero or of the given values."""
        kind = self._physical_dtype
        if self.is_arrow_type():
            return kind
        if self.is_numpy_type():
            return pa.from_numpy_dtype(kind)
        return pa.array(values if values is not None else [kind()]).type

    def to_numpy_dtype(self) -> np.dtype[Any]:
        """Return NumPy's type; `object` for Python's types, and where NumPy has none."""
        kind = self._physical_dtype
        if self.is_numpy_type():
            dtype: np.dtype[Any] = kind
            return dtype
        try:
            return np.dtype(kind.to_pandas_dtype() if self.is_arrow_type() else object)
        except (TypeError, ValueError, NotImplementedError):
            return np.dtype(object)

    def to_python_type(self) -> type:
        if not self.is_python_type():
            raise ValueError(f"{self!r} is not backed by a Python type")
        kind: type = self._physical_dtype
        return kind

    def __repr__(self) -> str:
        kind = self._physical_dtype
        if self.is_python_type():
            return f"DataType(python:{kind.__name__})"
        if self.is_arrow_type():
            return f"DataType(arrow:{type_text(kind)})"
        return f"DataType(numpy:{kind})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, DataType):
            return NotImplemented
        mine, others = self._physical_dtype, other._physical_dtype
        return type(mine) is type(others) and bool(mine == others)

    def __hash__(self) -> int:
        return hash((type(self._physical_dtype), self._physical_dtype))


_TIMES: dict[str, tuple[str, ...]] = {
    "timestamp": ("us", "s", "ms", "ns"),
    "date32": (),
    "date64": (),
    "time32": ("s", "ms"),
    "time64": ("us", "ns"),
    "duration": ("us", "s", "ms", "ns"),
}


def _asked(kind: str) -> object:
    return lambda self: is_kind(self._physical_dtype, kind)


for _kind in (
    "list tensor struct map nested null boolean integer floating uint64 string binary temporal"
).split():
    setattr(DataType, f"is_{_kind}_type", _asked(_kind))


def _plain(name: str) -> Any:
    def make(cls: type[DataType], *arguments: object) -> DataType:
        return cls(getattr(pa, name)(*arguments))

    make.__name__ = name.rstrip("_")
    make.__doc__ = (
        f"Create a DataType representing Arrow's {make.__name__}.\n\n"
        f"Returns:\n    A DataType with PyArrow {make.__name__} type.\n"
    )
    return classmethod(make)


for _name in (
    "bool_ int8 int16 int32 int64 uint8 uint16 uint32 uint64 float16 float32 float64 string "
    "large_string binary large_binary date32 date64 timestamp time32 time64 duration null"
).split():
    setattr(DataType, _name.rstrip("_"), _plain(_name))
