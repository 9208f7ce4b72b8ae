"""Columns that Polars carries from Arrow and back without a change.

Others (tensors, objects, lists, dictionaries …) stay behind in their table while the engine moves
the numbers of their rows; see `frames`.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING

import pyarrow as pa
from pyarrow import types as kinds

if TYPE_CHECKING:
    import polars

MOST_DIGITS = 38  # of a decimal of 128 bits


class UnlikeArrowError(Exception):
    """Polars has no counterpart of this, or one that differs in some value or type."""


def is_carried(type_: pa.DataType) -> bool:
    """Return whether values of this type go through Polars and come back the same."""
    return bool(
        kinds.is_boolean(type_)
        or kinds.is_integer(type_)
        or is_float(type_)
        or is_text(type_)
        or kinds.is_binary(type_)
        or kinds.is_large_binary(type_)
        or kinds.is_date32(type_)
        or kinds.is_timestamp(type_)
        or kinds.is_duration(type_)
        or kinds.is_time(type_)
        or kinds.is_decimal128(type_)
    )


def is_float(type_: pa.DataType) -> bool:
    """Return whether it is a number of 32 or 64 bits that can be NaN."""
    return bool(kinds.is_float32(type_) or kinds.is_float64(type_))


def is_text(type_: pa.DataType) -> bool:
    return bool(kinds.is_string(type_) or kinds.is_large_string(type_))


@cache
def polars_type(type_: pa.DataType) -> polars.DataType:
    """Return the type of Polars that a carried column has."""
    import polars

    return polars.from_arrow(pa.table({"x": pa.array([], type_)})).dtypes[0]


def as_number(column: polars.Expr, type_: pa.DataType, wanted: pa.DataType) -> polars.Expr:
    """Return the numbers in another type, as Arrow's kernels take them.

    Raises:
        UnlikeArrowError: If Polars would convert some of them differently.
    """
    if type_ == wanted:
        return column
    if kinds.is_integer(type_) and kinds.is_integer(wanted):
        _check_fits(type_, wanted)
    elif kinds.is_decimal128(type_) and is_float(wanted):
        return _float_of_decimal(column, type_, wanted)
    elif kinds.is_decimal128(wanted):
        _check_digits(type_, wanted)
    elif not (is_float(wanted) and (kinds.is_integer(type_) or is_float(type_))):
        raise UnlikeArrowError
    return column.cast(polars_type(wanted))


def _check_fits(type_: pa.DataType, wanted: pa.DataType) -> None:
    signed = (kinds.is_signed_integer(type_), kinds.is_signed_integer(wanted))
    more = wanted.bit_width - type_.bit_width
    if more < 0 or (signed[0] and not signed[1]) or (signed[1] and not signed[0] and not more):
        raise UnlikeArrowError


def _float_of_decimal(column: polars.Expr, type_: pa.DataType, wanted: pa.DataType) -> polars.Expr:
    """Divide the digits by the power of ten, as Arrow does; Polars' own cast rounds otherwise."""
    if type_.precision > 15 or not kinds.is_float64(wanted):  # 15 digits: exact as a float
        raise UnlikeArrowError
    import polars

    return column.to_physical().cast(polars.Float64) / 10.0**type_.scale


def _check_digits(type_: pa.DataType, wanted: pa.DataType) -> None:
    """Raise unless every value is one of the wanted decimals."""
    if kinds.is_decimal128(type_):
        whole, scale = type_.precision - type_.scale, type_.scale
    elif kinds.is_integer(type_):
        whole, scale = 20, 0
    else:
        raise UnlikeArrowError
    if scale > wanted.scale or whole + wanted.scale > MOST_DIGITS:
        raise UnlikeArrowError
