"""Rows to partitions by their keys."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import Block, check_columns
from skate.data._arrow.compute import pc
from skate.data._arrow.tensors import column_to_rows

if TYPE_CHECKING:
    from skate._core.arrays import Array


def hashed(block: Block, keys: Sequence[str], count: int) -> Array:
    """Compute a partition for each row. It depends on the values of the keys only: not on the type
    that a key has in this block, nor on the process."""
    check_columns(keys, block.column_names)
    total = np.zeros(block.num_rows, np.uint64)
    for key in keys:
        total = total * np.uint64(31) + _hashes(block[key])
    return total % np.uint64(count)


def numbers_of(column: pa.ChunkedArray) -> Array:
    """Return a number of 64 bits for each value, the same for equal values of this type: integers
    themselves, so that large ones differ where float64 does not, and hashes of others."""
    if not pa.types.is_integer(column.type):
        return _hashes(column)
    signed = pa.types.is_signed_integer(column.type)
    whole = column.cast(pa.int64() if signed else pa.uint64())
    numbers: Array = pc.fill_null(whole, 0).to_numpy().astype(np.uint64)
    return numbers


def row_hashes(path: str, start: int, count: int) -> Array:
    """Compute a number for each row of a file from `start` on, always the same for the same
    row."""
    digest = hashlib.blake2b(path.encode(), digest_size=8).digest()
    mixed = np.arange(start, start + count, dtype=np.uint64)
    mixed = mixed * np.uint64(0x9E3779B97F4A7C15) + np.uint64(int.from_bytes(digest, "little"))
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
    return mixed ^ (mixed >> np.uint64(31))


def _hashes(column: pa.ChunkedArray) -> Array:
    from pandas.util import hash_array

    missing = pc.is_null(column).to_numpy()
    return np.where(missing, np.uint64(0), hash_array(_comparable(column), categorize=False))


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Make an array in which values that are equal as keys are equal, whatever their types:
    numbers as float64, times in microseconds. Other values may become equal too."""
    type_ = column.type
    if pa.types.is_dictionary(type_):
        return _comparable(column.cast(type_.value_type))
    if pa.types.is_temporal(type_):
        column = _microseconds(column)
        type_ = column.type
    if pa.types.is_null(type_) or pa.types.is_boolean(type_) or _is_numeric(type_):
        numbers = pc.fill_null(column.cast(pa.float64(), safe=False), 0.0).to_numpy() + 0.0
        return np.where(np.isnan(numbers), np.nan, numbers)  # one zero and one NaN
    if _is_text(type_):
        return column.to_numpy()
    return np.array([repr(value) for value in column_to_rows(column)], object)


def _microseconds(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pa.types.is_duration(kind):
        return column.cast(pa.duration("us"), safe=False).cast(pa.int64())
    if pa.types.is_time(kind):
        return column.cast(pa.time64("us"), safe=False).cast(pa.int64())
    return column.cast(pa.timestamp("us"), safe=False).cast(pa.int64())


def _is_numeric(type_: pa.DataType) -> bool:
    kinds = pa.types
    return bool(kinds.is_integer(type_) or kinds.is_floating(type_) or kinds.is_decimal(type_))


def _is_text(type_: pa.DataType) -> bool:
    kinds = (
        pa.types.is_string, pa.types.is_large_string, pa.types.is_binary, pa.types.is_large_binary
    )  # fmt: skip
    return any(kind(type_) for kind in kinds)
