"""Aggregations, for `Dataset.aggregate` and `groupby(...).aggregate`."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from copy import copy
from typing import Any

import numpy as np
import pyarrow as pa

from skate._core.public_names import name_publicly
from skate.data._aggregates.base import (
    NULL,
    AccumulatorType,
    AggOutputType,
    AggregateFn,
    AggregateFnV2,
    BuiltinAggregate,
    Null,
    SupportsRichComparisonType,
    is_nan,
)
from skate.data._aggregates.values import (
    ApproximateQuantile,
    ApproximateTopK,
    AsList,
    CountDistinct,
    MissingValuePercentage,
    Unique,
    ValueCounter,
    ZeroPercentage,
)
from skate.data._arrow.blocks import Block
from skate.data._arrow.compute import pc
from skate.data._arrow.tensors import column_to_numpy

__all__ = [
    "AbsMax", "AccumulatorType", "AggOutputType", "AggregateFn", "AggregateFnV2",
    "ApproximateQuantile", "ApproximateTopK", "AsList", "Count", "CountDistinct", "Max", "Mean",
    "Min", "MissingValuePercentage", "Quantile", "Std", "Sum", "SupportsRichComparisonType",
    "Unique", "ValueCounter", "ZeroPercentage",
]  # fmt: skip


Kernel = tuple["str | list[str] | None", str, object]  # column, Arrow's function, its options


class Count(BuiltinAggregate):
    """The number of rows, or of those that have a value in a column.

    Args:
        on: The column; without one, rows are counted.
        ignore_nulls: Whether rows without a value are left out.
        alias_name: The name of the result; by default `count(column)`.
    """

    kind = "count"

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def zero(self, key: object = None) -> int:
        return 0

    def aggregate_block(self, block: Block) -> int:
        if self.on is None or not self.ignore_nulls:
            return int(block.num_rows)
        return int(block.num_rows - self.column(block).null_count)

    def combine(self, current_accumulator: int, new: int) -> int:
        return current_accumulator + new

    def output_type(self, input_schema: pa.Schema) -> pa.DataType:
        return pa.int64()

    def arrow(self) -> Kernel | None:
        if self.on is None:
            return [], "count_all", None
        return self.on, "count", pc.CountOptions("only_valid" if self.ignore_nulls else "all")


class _Reduction(BuiltinAggregate):
    """One kernel of Arrow reduces a column, and two results of it are joined by `pair`."""

    kernel = ""

    pair: Callable[[Any, Any], Any] = staticmethod(operator.add)

    def aggregate_block(self, block: Block) -> Any:
        reduce = getattr(pc, self.kernel)
        value = reduce(self.column(block), skip_nulls=self.ignore_nulls, min_count=1).as_py()
        return NULL if value is None and not self.ignore_nulls else value

    def combine(self, current_accumulator: object, new: object) -> Any:
        if isinstance(current_accumulator, Null) or isinstance(new, Null):
            return NULL
        if current_accumulator is None or new is None:
            return new if current_accumulator is None else current_accumulator
        return self.pair(current_accumulator, new)

    def finalize(self, accumulator: object) -> Any:
        return None if isinstance(accumulator, Null) else self._known(accumulator)

    def finished(self, column: pa.ChunkedArray, counts: pa.ChunkedArray) -> pa.ChunkedArray:
        return self._all_known(column)

    def output_type(self, input_schema: pa.Schema) -> pa.DataType:
        column = self.column(input_schema.empty_table())
        return getattr(pc, self.kernel)(column).type

    def arrow(self) -> Kernel | None:
        return self.on, self.kernel, self._options()


class Sum(_Reduction):
    """The sum of a column.

    Args:
        on: The column.
        ignore_nulls: Whether missing values are left out; otherwise one makes the result missing.
        alias_name: The name of the result; by default `sum(column)`.

    Example:
        >>> from skate.data.aggregate import Sum
        >>> skate.data.range(4).aggregate(Sum("id"))
        {'sum(id)': 6}
    """

    kind = kernel = "sum"


class _Extreme(_Reduction):
    """`zero_factory`, the state before any value, is Ray's; here no value is needed for that."""

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        zero_factory: Callable[[], object] | None = None,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def combine(self, current_accumulator: object, new: object) -> Any:
        """Combine two states, of which NaN is that of a block without any number."""
        if is_nan(current_accumulator) or is_nan(new):
            return new if is_nan(current_accumulator) else current_accumulator
        return super().combine(current_accumulator, new)


class Min(_Extreme):
    """The smallest value of a column.

    Args:
        on: The column.
        ignore_nulls: Whether missing values are left out; otherwise one makes the result missing.
        alias_name: The name of the result; by default `min(column)`.
        zero_factory: Has no effect: no state is needed before the first value.
    """

    kind = kernel = "min"
    pair: Callable[[Any, Any], Any] = staticmethod(min)


class Max(_Extreme):
    """The largest value of a column.

    Args:
        on: The column.
        ignore_nulls: Whether missing values are left out; otherwise one makes the result missing.
        alias_name: The name of the result; by default `max(column)`.
        zero_factory: Has no effect: no state is needed before the first value.
    """

    kind = kernel = "max"
    pair: Callable[[Any, Any], Any] = staticmethod(max)


class AbsMax(_Extreme):
    """The largest absolute value of a column.

    Args:
        on: The column.
        ignore_nulls: Whether missing values are left out; otherwise one makes the result missing.
        alias_name: The name of the result; by default `abs_max(column)`.
        zero_factory: Has no effect: no state is needed before the first value.
    """

    kind = "abs_max"
    kernel = "max"
    pair: Callable[[Any, Any], Any] = staticmethod(max)

    def column(self, block: Block) -> pa.ChunkedArray:
        return pc.abs(super().column(block))

    def finalize(self, accumulator: object) -> Any:
        found = super().finalize(accumulator)
        return None if is_nan(found) else found

    def arrow(self) -> Kernel | None:
        return None


class Mean(BuiltinAggregate):
    """The mean of a column.

    Args:
        on: The column.
        ignore_nulls: Whether missing values are left out; otherwise one makes the result missing.
        alias_name: The name of the result; by default `mean(column)`.

    Example:
        >>> from skate.data.aggregate import Mean
        >>> skate.data.range(4).aggregate(Mean("id"))
        {'mean(id)': 1.5}
    """

    kind = "mean"

    def aggregate_block(self, block: Block) -> Any:
        column = self.column(block)
        if column.null_count and not self.ignore_nulls:
            return NULL
        return pc.sum(column).as_py() or 0, len(column) - column.null_count

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        if isinstance(current_accumulator, Null) or isinstance(new, Null):
            return NULL
        sums, counts = zip(current_accumulator, new, strict=True)
        return sum(sums), sum(counts)

    def finalize(self, accumulator: Any) -> Any:
        if accumulator is None or isinstance(accumulator, Null) or not accumulator[1]:
            return None
        return self._known(accumulator[0] / accumulator[1])

    def finished(self, column: pa.ChunkedArray, counts: pa.ChunkedArray) -> pa.ChunkedArray:
        return self._all_known(column)

    def output_type(self, input_schema: pa.Schema) -> pa.DataType:
        return pa.float64()

    def arrow(self) -> Kernel | None:
        return self.on, "mean", self._options()


class Std(BuiltinAggregate):
    """The standard deviation of a column.

    Args:
        on: The column.
        ddof: What is taken off the number of values that the sum of squares is divided by, as in
            NumPy: 1 for a sample, 0 for a whole.
        ignore_nulls: Whether missing values are left out; otherwise one makes the result missing.
        alias_name: The name of the result; by default `std(column)`.
    """

    kind = "std"
    needs_counts = True

    def __init__(
        self,
        on: str | None = None,
        ddof: int = 1,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        self.ddof = ddof

    def column(self, block: Block) -> pa.ChunkedArray:
        column = super().column(block)
        return column.cast(pa.uint8()) if pa.types.is_boolean(column.type) else column

    def aggregate_block(self, block: Block) -> Any:
        column = self.column(block)
        if column.null_count and not self.ignore_nulls:
            return NULL
        count = len(column) - column.null_count
        if not count:
            return 0, 0.0, 0.0
        mean = pc.mean(column).as_py()
        return count, mean, pc.variance(column, ddof=0).as_py() * count

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        """Join two samples without losing precision, after Chan, Golub and LeVeque."""
        if isinstance(current_accumulator, Null) or isinstance(new, Null):
            return NULL
        (n, mean, squares), (m, other, more) = current_accumulator, new
        if not n or not m:
            return new if not n else current_accumulator
        delta = other - mean
        total = n + m
        return total, mean + delta * m / total, squares + more + delta * delta * n * m / total

    def finalize(self, accumulator: Any) -> Any:
        if accumulator is None or isinstance(accumulator, Null) or not accumulator[0]:
            return None
        if accumulator[0] <= self.ddof:
            return float("nan")
        return self._known(float(np.sqrt(accumulator[2] / (accumulator[0] - self.ddof))))

    def output_type(self, input_schema: pa.Schema) -> pa.DataType:
        return pa.float64()

    def arrow(self) -> Kernel | None:
        options = pc.VarianceOptions(ddof=self.ddof, skip_nulls=self.ignore_nulls)
        return self.on, "stddev", options

    def finished(self, column: pa.ChunkedArray, counts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Put NaN where Arrow has None for too few values, but there is one."""
        if not self.ignore_nulls:
            return column
        too_few = pc.and_(pc.is_null(column), pc.greater(counts, 0))
        return pc.if_else(too_few, float("nan"), self._all_known(column))


class Quantile(BuiltinAggregate):
    """A quantile of a column, interpolated; by default the median.

    Args:
        on: The column.
        q: The share of the values that are below it.
        ignore_nulls: Whether missing values are left out; otherwise one makes the result missing.
        alias_name: The name of the result; by default `quantile(column)`.
    """

    kind = "quantile"

    def __init__(
        self,
        on: str | None = None,
        q: float = 0.5,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        self.q = q

    def aggregate_block(self, block: Block) -> Any:
        column = self.column(block)
        if column.null_count and not self.ignore_nulls:
            return NULL
        values = column_to_numpy(column.drop_null())
        if pa.types.is_decimal(column.type):
            values = values.astype(np.float64)
        return [values[~np.isnan(values)] if values.dtype.kind == "f" else values]

    def combine(self, current_accumulator: Any, new: Any) -> Any:
        if isinstance(current_accumulator, Null) or isinstance(new, Null):
            return NULL
        current_accumulator.extend(new)
        return current_accumulator

    def finalize(self, accumulator: Any) -> Any:
        if accumulator is None or isinstance(accumulator, Null):
            return None
        values = np.concatenate(accumulator)
        return float(np.quantile(values, self.q)) if len(values) else None


def check_targets(functions: Sequence[AggregateFn]) -> None:
    """Raise for what is no aggregation, and for those without a column that need one."""
    for function in functions:
        if not isinstance(function, AggregateFn):
            raise TypeError(
                "what is computed is an aggregation of skate.data.aggregate, such as Mean('x'); "
                f"got {function!r}"
            )
        if not isinstance(function, BuiltinAggregate) or isinstance(function, Count):
            continue
        if not isinstance(function.on, str):
            name = type(function).__name__
            raise ValueError(f"{name} takes the name of a column, such as {name}('x')")


def columns_read(functions: Sequence[AggregateFn], keys: Sequence[str] = ()) -> list[str] | None:
    """List the columns that aggregations look at; None if unknown, or if there are none."""
    targets = [each.on for each in functions if isinstance(each, BuiltinAggregate)]
    if len(targets) < len(functions):
        return None
    return list(dict.fromkeys([*keys, *(on for on in targets if on is not None)])) or None


def distinct_names(
    functions: Sequence[AggregateFn], keys: Sequence[str] = ()
) -> tuple[AggregateFn, ...]:
    """Put a number after names that occur again, or are those of `keys`: `sum(x)`, `sum(x)_2`."""
    seen = dict.fromkeys(keys, 1)
    found = []
    for function in functions:
        number = seen[function.name] = seen.get(function.name, 0) + 1
        if number > 1:
            function = copy(function)
            function.name = f"{function.name}_{number}"
        found.append(function)
    return tuple(found)


name_publicly(__name__)
