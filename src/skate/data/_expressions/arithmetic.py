"""Calculating with columns: what Arrow's kernels alone do not do as expected."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from skate.data._arrow.compute import pc

if TYPE_CHECKING:
    from skate.data._arrow.blocks import Column


def sum_of(a: Column | pa.Scalar, b: Column | pa.Scalar) -> object:
    """Add numbers; texts are put one after the other."""
    a, b = _decoded(a), _decoded(b)
    if not (_is_text(a.type) and _is_text(b.type)):
        return pc.add(a, b)
    if not pa.types.is_large_string(a.type) and not pa.types.is_large_string(b.type):
        return pc.binary_join_element_wise(a, b, "")
    wide = pa.large_string()
    return pc.binary_join_element_wise(a.cast(wide), b.cast(wide), pa.scalar("", wide))


def _decoded(values: Column | pa.Scalar) -> Column | pa.Scalar:
    return values.cast(values.type.value_type) if pa.types.is_dictionary(values.type) else values


def _is_text(type_: pa.DataType) -> bool:
    return bool(pa.types.is_string(type_) or pa.types.is_large_string(type_))


def _quotient(a: object, b: object) -> object:
    return pc.divide(pc.cast(a, pa.float64()), pc.cast(b, pa.float64()))


def ratio(a: object, b: object) -> object:
    """Divide; of whole numbers the result is a whole number, rounded towards zero, as Ray and
    Arrow do."""
    return pc.divide(a, b)


def floor_quotient(a: Column | pa.Scalar, b: Column | pa.Scalar) -> object:
    """Divide and round down, as in Python. Arrow's own division of whole numbers rounds towards
    zero."""
    if not (pa.types.is_integer(a.type) and pa.types.is_integer(b.type)):
        return pc.floor(_quotient(a, b))
    whole = pc.divide(a, b)
    rest = pc.subtract(a, pc.multiply(whole, b))
    other_sign = pc.not_equal(pc.less(rest, 0), pc.less(b, 0))
    too_large = pc.and_(pc.not_equal(rest, 0), other_sign)
    return pc.subtract(whole, pc.cast(too_large, whole.type))


def remainder(a: object, b: object) -> object:
    return pc.subtract(a, pc.multiply(b, floor_quotient(a, b)))


def filled(values: Column, fill_value: object) -> object:
    """Fill missing values; a column of nothing else gets the type of the value."""
    if pa.types.is_null(values.type):
        values = values.cast(pa.scalar(fill_value).type)
    return pc.fill_null(values, fill_value)
