"""Kernels for one kind of column: `col("name").str.upper()`, `col("when").dt.year()` ...

A method takes its arguments as the function of pyarrow.compute does that it stands for.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pyarrow as pa

from skate.data._arrow.compute import pc
from skate.data._arrow.tensors import column_to_rows, is_tensor

if TYPE_CHECKING:
    from skate._core.arrays import Array
    from skate.data._arrow.blocks import Column
    from skate.data._expressions.expression import Expr


class Namespace:
    """Methods named in `kernels`, and those that derived classes add; by Arrow's functions, but
    for those that are not `in_arrow`."""

    name = ""
    kernels: ClassVar[dict[str, str]] = {}

    def __init__(self, expression: Expr) -> None:
        self._expression = expression

    def _apply(
        self,
        method: str,
        function: Callable[..., Column],
        op: str = "",
        *,
        in_arrow: bool = True,
        **arguments: object,
    ) -> Expr:
        from skate.data._expressions.functions import KernelExpr

        inner = self._expression
        text = f"{inner}.{self.name}.{method}"
        return KernelExpr(
            lambda block: function(inner.evaluate(block)),
            text,
            (inner,),
            in_arrow=function if in_arrow else None,
            kernel=op and f"{self.name}.{op}",
            arguments=arguments,
        )

    def __getattr__(self, name: str) -> Callable[..., Expr]:
        kernel = self.kernels.get(name)
        if kernel is None:
            own = [n for n in dir(type(self)) if not n.startswith("_")]
            known = sorted({*self.kernels, *own} - {"name", "kernels"})
            raise AttributeError(f".{self.name} has no {name!r}; there are {known}")
        function = getattr(pc, kernel)

        def call(*args: object, **kwargs: object) -> Expr:
            shown = ", ".join([*map(repr, args), *(f"{k}={v!r}" for k, v in kwargs.items())])
            text = f"{name}({shown})"
            given: dict[str, Any] = {"args": args, "kwargs": kwargs}
            return self._apply(text, lambda x: function(x, *args, **kwargs), name, **given)

        return call

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self.kernels]


class Strings(Namespace):
    """Text."""

    name = "str"
    kernels: ClassVar[dict[str, str]] = {
        **{
            name: f"utf8_{name}"
            for name in "upper lower capitalize title swapcase reverse is_alpha is_alnum is_digit "
            "is_decimal is_numeric is_space is_lower is_upper is_title is_printable replace_slice "
            "split_whitespace".split()
        },
        "len": "utf8_length",
        "byte_len": "binary_length",
        "is_ascii": "string_is_ascii",
        "starts_with": "starts_with",
        "ends_with": "ends_with",
        "contains": "match_substring",
        "match": "match_like",
        "match_regex": "match_substring_regex",
        "find": "find_substring",
        "find_regex": "find_substring_regex",
        "count": "count_substring",
        "count_regex": "count_substring_regex",
        "replace": "replace_substring",
        "replace_regex": "replace_substring_regex",
        "split": "split_pattern",
        "split_regex": "split_pattern_regex",
        "slice": "utf8_slice_codeunits",
        "extract": "extract_regex",
        "repeat": "binary_repeat",
    }
    _SIDES: ClassVar = {"left": "utf8_lpad", "right": "utf8_rpad", "both": "utf8_center"}

    def strip(self, characters: str | None = None) -> Expr:
        """Remove these characters, or spaces, at both ends."""
        return self._stripped("strip", "trim", characters)

    def lstrip(self, characters: str | None = None) -> Expr:
        return self._stripped("lstrip", "ltrim", characters)

    def rstrip(self, characters: str | None = None) -> Expr:
        return self._stripped("rstrip", "rtrim", characters)

    def _stripped(self, method: str, kernel: str, characters: str | None) -> Expr:
        if characters is None:
            return self._apply(f"{method}()", getattr(pc, f"utf8_{kernel}_whitespace"))
        function = getattr(pc, f"utf8_{kernel}")
        return self._apply(f"{method}({characters!r})", lambda x: function(x, characters))

    def pad(self, width: int, fillchar: str = " ", side: str = "right") -> Expr:
        """Fill up to at least `width` characters; `side` is where others are added."""
        if side not in self._SIDES:
            raise ValueError(f"side takes 'left', 'right' or 'both'; got {side!r}")
        function = getattr(pc, self._SIDES[side])
        text = f"pad({width}, {fillchar!r}, {side!r})"
        return self._apply(text, lambda x: function(x, width, fillchar))

    def lpad(self, width: int, padding: str = " ") -> Expr:
        return self.pad(width, padding, "left")

    def rpad(self, width: int, padding: str = " ") -> Expr:
        return self.pad(width, padding, "right")

    def center(self, width: int, padding: str = " ") -> Expr:
        return self.pad(width, padding, "both")


class Dates(Namespace):
    """Dates and times."""

    name = "dt"
    kernels: ClassVar[dict[str, str]] = {
        name: name
        for name in "year month day hour minute second quarter day_of_week day_of_year".split()
    }

    def strftime(self, fmt: str) -> Expr:
        """Format as text, by the codes of `pyarrow.compute.strftime`."""
        return self._apply(f"strftime({fmt!r})", lambda x: pc.strftime(x, format=fmt))

    def ceil(self, unit: str) -> Expr:
        """Round up to the next whole `unit`, such as "day"."""
        return self._apply(f"ceil({unit!r})", lambda x: pc.ceil_temporal(x, 1, unit))

    def floor(self, unit: str) -> Expr:
        return self._apply(f"floor({unit!r})", lambda x: pc.floor_temporal(x, 1, unit))

    def round(self, unit: str) -> Expr:
        return self._apply(f"round({unit!r})", lambda x: pc.round_temporal(x, 1, unit))


class Lists(Namespace):
    """Lists: also `col("x").list[0]` and `col("x").list[1:3]`."""

    name = "list"
    kernels: ClassVar[dict[str, str]] = {"len": "list_value_length", "get": "list_element"}

    def __getitem__(self, key: int | slice) -> Expr:
        if isinstance(key, slice):
            return self.slice(key.start, key.stop, key.step)
        if not isinstance(key, int):
            raise TypeError(f"List indices must be integers or slices; got {key!r}")
        return self.get(key)

    def slice(
        self, start: int | None = None, stop: int | None = None, step: int | None = None
    ) -> Expr:
        """Take the elements from `start` to before `stop`."""
        text = f"slice({start}, {stop}, {step})"
        return self._apply(text, lambda x: pc.list_slice(x, start or 0, stop, step or 1))

    def sort(self, order: str = "ascending", null_placement: str = "at_end") -> Expr:
        """Sort each list."""
        if order not in ("ascending", "descending"):
            raise ValueError(f"order takes 'ascending' or 'descending'; got {order!r}")
        if null_placement not in ("at_start", "at_end"):
            raise ValueError(f"null_placement takes 'at_start', 'at_end'; got {null_placement!r}")
        return self._apply(
            f"sort({order!r})", lambda x: _sorted_lists(x, order, null_placement), in_arrow=False
        )

    def flatten(self) -> Expr:
        """Make lists of lists one level less deep."""
        return self._apply("flatten()", _flattened, in_arrow=False)


def _one_array(column: Column) -> pa.Array:
    return column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column


def _check_lists(array: pa.Array, what: str) -> None:
    type_ = array.type
    if not (pa.types.is_list(type_) or pa.types.is_large_list(type_)):
        raise TypeError(f"list.{what} needs a column of lists; got {type_}")


def _lists_like(array: pa.Array, counts: Array, values: pa.Array) -> pa.Array:
    """Make lists of so many of the values each, missing where the array is."""
    offsets = np.zeros(len(array) + 1, np.int64)
    np.cumsum(counts, out=offsets[1:])
    large = pa.types.is_large_list(array.type)
    kind, width = (pa.LargeListArray, pa.int64()) if large else (pa.ListArray, pa.int32())
    mask = array.is_null() if array.null_count else None
    return kind.from_arrays(pa.array(offsets, width), values, mask=mask)


def _lengths(array: pa.Array) -> Array:
    lengths: Array = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    return lengths


def _owners(array: pa.Array) -> Array:
    """Find the row of each value; a missing list has none, even where Arrow keeps values behind
    it."""
    return np.repeat(np.arange(len(array)), _lengths(array))


def _sorted_lists(column: Column, order: str, null_placement: str) -> Column:
    array = _one_array(column)
    original = array.type
    if pa.types.is_fixed_size_list(original):
        array = array.cast(pa.list_(original.value_type))
    _check_lists(array, "sort()")
    values = pc.list_flatten(array)
    table = pa.table({"row": _owners(array), "missing": values.is_null(), "value": values})
    missing = "ascending" if null_placement == "at_end" else "descending"
    keys = [("row", "ascending"), ("missing", missing), ("value", order)]
    places = pc.sort_indices(table, sort_keys=keys)
    return _lists_like(array, _lengths(array), values.take(places)).cast(original)


def _flattened(column: Column) -> Column:
    array = _one_array(column)
    _check_lists(array, "flatten()")
    inner = pc.list_flatten(array)
    _check_lists(inner, "flatten()")
    counts = np.bincount(_owners(array)[_owners(inner)], minlength=len(array))
    return _lists_like(array, counts, pc.list_flatten(inner))


class Structs(Namespace):
    """Dictionaries with fixed keys: also `col("x").struct["key"]`."""

    name = "struct"

    def field(self, field_name: str) -> Expr:
        return self._apply(f"field({field_name!r})", lambda x: pc.struct_field(x, field_name))

    def field_by_index(self, index: int) -> Expr:
        return self._apply(f"field_by_index({index})", lambda x: pc.struct_field(x, index))

    def __getitem__(self, key: str | int) -> Expr:
        if not isinstance(key, (str, int)):
            raise TypeError(f"Struct indices must be strings or integers; got {key!r}")
        return self.field(key) if isinstance(key, str) else self.field_by_index(key)


class Maps(Namespace):
    """Maps, or lists of pairs."""

    name = "map"

    def keys(self) -> Expr:
        return self._apply("keys()", lambda x: _map_part(x, 0), in_arrow=False)

    def values(self) -> Expr:
        return self._apply("values()", lambda x: _map_part(x, 1), in_arrow=False)


def _map_part(column: Column, number: int) -> Column:
    array = _one_array(column)
    if pa.types.is_map(array.type):
        array = array.cast(pa.list_(pa.struct([*_pair_fields(array.type)])))
    _check_lists(array, "keys() and values()")
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    return _lists_like(array, counts, pc.struct_field(pc.list_flatten(array), number))


def _pair_fields(type_: pa.DataType) -> list[tuple[str, pa.DataType]]:
    return [("key", type_.key_type), ("value", type_.item_type)]


class Arrays(Namespace):
    """Tensors."""

    name = "arr"

    def to_list(self) -> Expr:
        """Convert to lists, nested for more than one dimension."""
        return self._apply("to_list()", _as_lists, in_arrow=False)


def _as_lists(column: Column) -> pa.Array:
    array = _one_array(column)
    if not is_tensor(array.type):
        if pa.types.is_fixed_size_list(array.type):
            return array.cast(pa.list_(array.type.value_type))
        if not (pa.types.is_list(array.type) or pa.types.is_large_list(array.type)):
            raise TypeError(
                "to_list() can only be called on list-like columns, which hold lists or tensors; "
                f"got {array.type}"
            )
        return array
    rows = column_to_rows(pa.chunked_array([array]))
    return pa.array([None if row is None else row.tolist() for row in rows])
