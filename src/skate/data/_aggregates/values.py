"""Aggregations that look at single values: which there are, how often, which are missing."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data._aggregates.base import BuiltinAggregate
from skate.data._arrow.blocks import Block
from skate.data._arrow.compute import pc
from skate.data._arrow.tensors import column_to_numpy, column_to_rows


class ListEncodingMode(str, Enum):
    """What counts as a value in a column of lists: each element, or a hash of each list."""

    FLATTEN = "FLATTEN"
    HASH = "HASH"


_Mode = ListEncodingMode  # inside the class, that name is an attribute, as in Ray


class Unique(BuiltinAggregate):
    """The distinct values of a column, as a list in order of appearance.

    Args:
        on: The column.
        ignore_nulls: Whether missing values are left out.
        alias_name: The name of the result; by default `unique(column)`.
        encode_lists: Whether the elements of lists are the values, and not whole lists.
    """

    kind = "unique"
    ListEncodingMode = ListEncodingMode

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = False,
        alias_name: str | None = None,
        encode_lists: bool | _Mode | None = None,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        self.encode_lists: ListEncodingMode | None = (
            _Mode.FLATTEN if encode_lists is True else (encode_lists or None)
        )

    def aggregate_block(self, block: Block) -> dict[object, None]:
        column = self.column(block)
        if self.encode_lists is _Mode.FLATTEN and is_list(column.type):
            column = pc.list_flatten(column)
        try:
            values = pc.unique(column).to_pylist()
        except pa.ArrowNotImplementedError:  # lists and the like have no unique kernel
            values = [hashable(value) for value in column_to_rows(column)]
        if self.encode_lists is _Mode.HASH and is_list(column.type):
            values = [None if value is None else _digest(value) for value in values]
        return dict.fromkeys(map(_key, values))

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        current_accumulator.update(new)
        return current_accumulator

    def finalize(self, accumulator: Any) -> Any:
        values = (as_lists(shown(value)) for value in accumulator or ())
        return [value for value in values if value is not None or not self.ignore_nulls]


class CountDistinct(Unique):
    """The number of distinct values of a column.

    Args:
        on: The column.
        ignore_nulls: Whether missing values are left out.
        alias_name: The name of the result; by default `count_distinct(column)`.
    """

    kind = "count_distinct"

    def __init__(self, on: str, ignore_nulls: bool = True, alias_name: str | None = None) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def finalize(self, accumulator: object) -> int:
        return len(super().finalize(accumulator))


class _Counting(BuiltinAggregate):
    """How often each value occurs."""

    encode_lists = False
    skips_missing = True

    def aggregate_block(self, block: Block) -> Counter[object]:
        column = self.column(block)
        if self.encode_lists and is_list(column.type):
            column = pc.list_flatten(column)
        if self.skips_missing:
            column = column.drop_null()
        try:
            pairs = pc.value_counts(column.combine_chunks())
            values, counts = (pairs.field(number).to_pylist() for number in (0, 1))
            found: Counter[Any] = Counter()
            for value, count in zip(map(_key, values), counts, strict=True):
                found[value] += count  # Arrow counts 0.0 and -0.0 apart
            return found
        except pa.ArrowNotImplementedError:
            return Counter(hashable(value) for value in column_to_rows(column))

    def combine(
        self, current_accumulator: Counter[object], new: Counter[object]
    ) -> Counter[object]:
        current_accumulator.update(new)
        return current_accumulator


class ValueCounter(_Counting):
    """How often each value of a column occurs: `{"values": [...], "counts": [...]}`.

    Args:
        on: The column.
        ignore_nulls: Has no effect: None is a value, too.
        alias_name: The name of the result; by default `value_counter(column)`.
    """

    kind = "value_counter"
    skips_missing = False

    def finalize(self, accumulator: Any) -> dict[str, list[object]]:
        found = accumulator or {}
        return {"values": list(map(shown, found)), "counts": list(found.values())}


class ApproximateTopK(_Counting):
    """The most frequent values of a column: `[{column: value, "count": n}, ...]`.

    Args:
        on: The column.
        k: How many.
        log_capacity: Has no effect: values are counted exactly.
        alias_name: The name of the result; by default `approx_topk(column)`.
        encode_lists: Whether the elements of lists are the values, and not whole lists.
    """

    kind = "approx_topk"

    def __init__(
        self,
        on: str,
        k: int,
        log_capacity: int = 15,
        alias_name: str | None = None,
        encode_lists: bool = False,
    ) -> None:
        super().__init__(on, True, alias_name)
        self.k = k
        self.encode_lists = encode_lists

    def finalize(self, accumulator: Any) -> list[dict[str, object]]:
        top = (accumulator or Counter()).most_common(self.k)
        return [{str(self.on): shown(value), "count": count} for value, count in top]


class ApproximateQuantile(BuiltinAggregate):
    """Quantiles of a column, each one of its values.

    Args:
        on: The column.
        quantiles: The shares of the values that are below them.
        quantile_precision: Has no effect: they are exact.
        alias_name: The name of the result; by default `approx_quantile(column)`.
    """

    kind = "approx_quantile"

    def __init__(
        self,
        on: str,
        quantiles: Sequence[float],
        quantile_precision: int = 800,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, True, alias_name)
        self.quantiles: list[float] = list(quantiles)

    def aggregate_block(self, block: Block) -> list[object]:
        return [column_to_numpy(self.column(block).drop_null())]

    def combine(self, current_accumulator: list[object], new: list[object]) -> list[object]:
        current_accumulator.extend(new)
        return current_accumulator

    def finalize(self, accumulator: Any) -> list[float] | None:
        values = np.concatenate(accumulator) if accumulator else np.empty(0)
        if not len(values):
            return None
        return [float(v) for v in np.quantile(values, self.quantiles, method="inverted_cdf")]


class AsList(BuiltinAggregate):
    """All values of a column, as a list.

    Args:
        on: The column.
        alias_name: The name of the result; by default `list(column)`.
        ignore_nulls: Whether missing values are left out.
    """

    kind = "list"

    def __init__(self, on: str, alias_name: str | None = None, ignore_nulls: bool = False) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def aggregate_block(self, block: Block) -> list[object]:
        values = column_to_rows(self.column(block))
        return [value for value in values if value is not None or not self.ignore_nulls]

    def combine(self, current_accumulator: list[object], new: list[object]) -> list[object]:
        current_accumulator.extend(new)
        return current_accumulator


class _Percentage(BuiltinAggregate):
    """A share of the rows, in per cent; the states are (those that count, all)."""

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        return current_accumulator[0] + new[0], current_accumulator[1] + new[1]

    def finalize(self, accumulator: Any) -> float | None:
        if not accumulator or not accumulator[1]:
            return None
        return 100.0 * float(accumulator[0]) / float(accumulator[1])


class MissingValuePercentage(_Percentage):
    """How many per cent of the values of a column are None or NaN.

    Args:
        on: The column.
        alias_name: The name of the result; by default `missing_pct(column)`.
    """

    kind = "missing_pct"

    def __init__(self, on: str, alias_name: str | None = None) -> None:
        super().__init__(on, False, alias_name)

    def aggregate_block(self, block: Block) -> tuple[int, int]:
        missing = pc.is_null(self.column(block), nan_is_null=True)
        return pc.sum(missing).as_py() or 0, block.num_rows


class ZeroPercentage(_Percentage):
    """How many per cent of the values of a column are 0.

    Args:
        on: The column.
        ignore_nulls: Whether missing values are left out; otherwise they count as values.
        alias_name: The name of the result; by default `zero_pct(column)`.
    """

    kind = "zero_pct"

    def aggregate_block(self, block: Block) -> tuple[int, int]:
        column = self.column(block)
        total = len(column) - (column.null_count if self.ignore_nulls else 0)
        if pa.types.is_null(column.type):  # of which Arrow knows no zero
            return 0, total
        if pa.types.is_decimal(column.type):  # a whole number need not fit its digits
            zero = pa.scalar(0, column.type)
        else:
            zero = pa.scalar(0).cast(column.type)
        return pc.sum(pc.equal(column, zero)).as_py() or 0, total


def _digest(value: object) -> int:
    """Compute a number that is the same in every process, unlike hash()."""
    return int.from_bytes(hashlib.blake2b(repr(value).encode(), digest_size=7).digest(), "big")


def is_list(type_: pa.DataType) -> bool:
    return bool(pa.types.is_list(type_) or pa.types.is_large_list(type_))


_nan = float("nan")  # one object, so that it is found again as a key


def _key(value: object) -> object:
    return _nan if value != value else value


class _Fields(tuple[tuple[str, Any], ...]):
    """A dictionary that can be counted."""


def hashable(value: object) -> object:
    """Return the value as it can be counted: lists and arrays as tuples."""
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, dict):
        return _Fields((name, hashable(inner)) for name, inner in value.items())
    return tuple(map(hashable, value)) if isinstance(value, list) else _key(value)


def shown(value: object) -> object:
    """Return what was made hashable as users see it: dictionaries again."""
    if isinstance(value, _Fields):
        return {name: shown(inner) for name, inner in value}
    return tuple(map(shown, value)) if isinstance(value, tuple) else value


def as_lists(value: object) -> object:
    """Return the value with lists again in the place of tuples."""
    if isinstance(value, dict):
        return {name: as_lists(inner) for name, inner in value.items()}
    return [as_lists(inner) for inner in value] if isinstance(value, tuple) else value
