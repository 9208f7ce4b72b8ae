"""Questions about a type: is it a number, a list, a time …"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from skate._core.optional_imports import ray_is_skate
from skate.data._arrow.tensors import is_tensor

_NUMPY_KINDS = {"boolean": "b", "integer": "iu", "floating": "f", "string": "US", "binary": "V"}
_PYTHON_TYPES: dict[str, tuple[type, ...]] = {
    "boolean": (bool,),
    "integer": (int,),
    "floating": (float,),
    "string": (str,),
    "binary": (bytes, bytearray),
}


def _any_of(*names: str) -> Callable[[pa.DataType], bool]:
    tests = [test for name in names if (test := getattr(pa.types, f"is_{name}", None)) is not None]
    return lambda type_: any(test(type_) for test in tests)


_ARROW_TESTS: dict[str, Callable[[pa.DataType], bool]] = {
    "boolean": _any_of("boolean"),
    "integer": _any_of("integer"),
    "floating": _any_of("floating"),
    "string": _any_of("string", "large_string", "string_view"),
    "binary": _any_of("binary", "large_binary", "binary_view", "fixed_size_binary"),
    "list": _any_of("list", "large_list", "fixed_size_list", "list_view", "large_list_view"),
    "large_list": _any_of("large_list", "large_list_view"),
    "struct": _any_of("struct"),
    "map": _any_of("map"),
    "nested": _any_of("nested"),
    "temporal": _any_of("temporal"),
    "null": _any_of("null"),
    "uint64": _any_of("uint64"),
    "decimal": _any_of("decimal"),
    "tensor": is_tensor,
}


def is_kind(type_: object, kind: str) -> bool:
    """Return whether a type of Arrow, NumPy or Python is of this kind."""
    if isinstance(type_, pa.DataType):
        inner = type_.value_type if pa.types.is_dictionary(type_) else type_
        return bool(_ARROW_TESTS[kind](inner))
    if isinstance(type_, np.dtype):
        if kind == "temporal":
            return type_.kind in "mM"
        if kind == "uint64":
            return bool(type_ == np.uint64)
        return bool(type_.kind in _NUMPY_KINDS.get(kind, ""))
    if kind == "temporal":
        return str(type_.__module__) == "datetime"
    return type_ in _PYTHON_TYPES.get(kind, ())


def is_number(type_: object) -> bool:
    """Return whether one can calculate with values of this type."""
    if isinstance(type_, np.dtype):
        return type_.kind in "iufc"
    if isinstance(type_, type) and type_ is complex:
        return True
    kinds = ("integer", "floating", "decimal") if isinstance(type_, pa.DataType) else ()
    return any(is_kind(type_, kind) for kind in kinds or ("integer", "floating"))


def arrow_type(type_: Any) -> Any:
    """Return Arrow's type for one of Arrow, a `DataType`, or the name of one; None stays None."""
    if isinstance(type_, str):
        try:
            return pa.type_for_alias(type_)
        except ValueError:
            library = "ray" if ray_is_skate() else "skate"
            raise TypeError(
                f"target_type must be a {library}.data.datatype.DataType, such as "
                f"DataType.int64(), or the name of one; got {type_!r}"
            ) from None
    return type_.to_arrow_dtype() if hasattr(type_, "to_arrow_dtype") else type_
