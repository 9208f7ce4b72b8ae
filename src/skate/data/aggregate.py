"""Aggregations, for `Dataset.aggregate` and `groupby(...).aggregate`.

One that has `arrow()` is done by Arrow's kernels for all groups at once; any other by states:
`zero()`, `aggregate_block(block)`, `combine(a, b)`, `finalize(state)`, per group.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data._blocks import Block, check_columns, rows_of
from skate.data._tensors import column_to_numpy

__all__ = [
    "AbsMax", "AggregateFn", "AggregateFnV2", "Count", "Max", "Mean", "Min", "Quantile", "Std",
    "Sum", "Unique",
]  # fmt: skip


class AggregateFn:
    """An aggregation of your own, by rows or by blocks.

    `init(key)` is the first state, `accumulate_row(state, row)` or `accumulate_block(state,
    block)` adds to it, `merge(a, b)` joins two, `finalize(state)` gives the result.
    """

    def __init__(
        self,
        init: Callable[[Any], Any],
        merge: Callable[[Any, Any], Any],
        name: str,
        accumulate_row: Callable[[Any, Any], Any] | None = None,
        accumulate_block: Callable[[Any, Block], Any] | None = None,
        finalize: Callable[[Any], Any] | None = None,
    ) -> None:
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("give one of accumulate_row and accumulate_block")
        self.name = name
        self._init = init
        self._merge = merge
        self._row = accumulate_row
        self._block = accumulate_block
        self._finalize = finalize or (lambda state: state)

    def zero(self, key: Any = None) -> Any:
        return self._init(key)

    def add(self, state: Any, block: Block) -> Any:
        """The state after one more block."""
        if self._block is not None:
            return self._block(state, block)
        assert self._row is not None
        for row in rows_of(block):
            state = self._row(state, row)
        return state

    def merge(self, a: Any, b: Any) -> Any:
        return self._merge(a, b)

    def finalize(self, state: Any) -> Any:
        return self._finalize(state)

    def arrow(self) -> tuple[Any, str, Any] | None:
        """(column, hash aggregation of Arrow, its options), if that gives the same result."""
        return None

    def finished(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """What Arrow's aggregation gave, in final form."""
        return column


class AggregateFnV2(AggregateFn):
    """An aggregation to derive from: override `aggregate_block`, `combine` and `finalize`."""

    def __init__(
        self,
        name: str,
        zero_factory: Callable[[], Any] = lambda: None,
        *,
        on: str | None = None,
        ignore_nulls: bool = True,
    ) -> None:
        self.name = name
        self.on = on
        self.ignore_nulls = ignore_nulls
        self._zero = zero_factory

    def aggregate_block(self, block: Block) -> Any:
        """The state of one block."""
        raise TypeError(f"{type(self).__name__} must override aggregate_block")

    def combine(self, current: Any, new: Any) -> Any:
        """The state of both."""
        raise TypeError(f"{type(self).__name__} must override combine")

    def zero(self, key: Any = None) -> Any:
        return self._zero()

    def add(self, state: Any, block: Block) -> Any:
        if self.on is not None:
            check_columns([self.on], block.column_names)
        new = self.aggregate_block(block)
        return new if state is None else self.combine(state, new)

    def merge(self, a: Any, b: Any) -> Any:
        return self.combine(a, b)

    def finalize(self, state: Any) -> Any:
        return state

    def column(self, block: Block) -> pa.ChunkedArray:
        assert self.on is not None
        return block[self.on]


class _Builtin(AggregateFnV2):
    """Named `kind(column)` unless an alias is given."""

    kind = ""

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        name = alias_name or f"{self.kind}({on if on is not None else ''})"
        super().__init__(name, on=on, ignore_nulls=ignore_nulls)

    def _options(self) -> Any:
        return pc.ScalarAggregateOptions(skip_nulls=self.ignore_nulls, min_count=1)


class Count(_Builtin):
    """The number of rows, or of rows in which a column is not None."""

    kind = "count"

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = False, alias_name: str | None = None
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)

    def zero(self, key: Any = None) -> int:
        return 0

    def aggregate_block(self, block: Block) -> int:
        if self.on is None or not self.ignore_nulls:
            return int(block.num_rows)
        return int(block.num_rows - self.column(block).null_count)

    def combine(self, current: int, new: int) -> int:
        return current + new

    def arrow(self) -> tuple[Any, str, Any] | None:
        if self.on is None:
            return [], "count_all", None
        return self.on, "count", pc.CountOptions("only_valid" if self.ignore_nulls else "all")


class _Reduction(_Builtin):
    """One kernel of Arrow reduces a column, and two results of it are joined by `pair`."""

    kernel = ""

    pair: Callable[[Any, Any], Any] = staticmethod(operator.add)

    def aggregate_block(self, block: Block) -> Any:
        reduce = getattr(pc, self.kernel)
        value = reduce(self.column(block), skip_nulls=self.ignore_nulls, min_count=1).as_py()
        return _NULL if value is None and not self.ignore_nulls else value

    def combine(self, current: Any, new: Any) -> Any:
        if isinstance(current, _Null) or isinstance(new, _Null):
            return _NULL
        if current is None or new is None:
            return new if current is None else current
        return self.pair(current, new)

    def finalize(self, state: Any) -> Any:
        return None if isinstance(state, _Null) else state

    def arrow(self) -> tuple[Any, str, Any] | None:
        return self.on, self.kernel, self._options()


class _Null:
    """A missing value that must not be ignored."""


_NULL = _Null()


class Sum(_Reduction):
    kind = kernel = "sum"


class Min(_Reduction):
    kind = kernel = "min"
    pair = staticmethod(min)


class Max(_Reduction):
    kind = kernel = "max"
    pair = staticmethod(max)


class AbsMax(_Reduction):
    """The largest absolute value."""

    kind = "abs_max"
    kernel = "max"
    pair = staticmethod(max)

    def column(self, block: Block) -> pa.ChunkedArray:
        return pc.abs(super().column(block))

    def arrow(self) -> tuple[Any, str, Any] | None:
        return None


class Mean(_Builtin):
    kind = "mean"

    def aggregate_block(self, block: Block) -> Any:
        column = self.column(block)
        if column.null_count and not self.ignore_nulls:
            return _NULL
        return pc.sum(column).as_py() or 0, len(column) - column.null_count

    def combine(self, current: Any, new: Any) -> Any:
        if isinstance(current, _Null) or isinstance(new, _Null):
            return _NULL
        return current[0] + new[0], current[1] + new[1]

    def finalize(self, state: Any) -> Any:
        if state is None or isinstance(state, _Null) or not state[1]:
            return None
        return state[0] / state[1]

    def arrow(self) -> tuple[Any, str, Any] | None:
        return self.on, "mean", self._options()


class Std(_Builtin):
    """The standard deviation, with `ddof` as in NumPy."""

    kind = "std"

    def __init__(
        self,
        on: str | None = None,
        ddof: int = 1,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        self.ddof = ddof

    def aggregate_block(self, block: Block) -> Any:
        column = self.column(block)
        if column.null_count and not self.ignore_nulls:
            return _NULL
        count = len(column) - column.null_count
        if not count:
            return 0, 0.0, 0.0
        mean = pc.mean(column).as_py()
        return count, mean, pc.variance(column, ddof=0).as_py() * count

    def combine(self, current: Any, new: Any) -> Any:
        """Two samples joined without losing precision, after Chan, Golub and LeVeque."""
        if isinstance(current, _Null) or isinstance(new, _Null):
            return _NULL
        (n, mean, squares), (m, other, more) = current, new
        if not n or not m:
            return new if not n else current
        delta = other - mean
        total = n + m
        return total, mean + delta * m / total, squares + more + delta * delta * n * m / total

    def finalize(self, state: Any) -> Any:
        if state is None or isinstance(state, _Null) or not state[0]:
            return None
        if state[0] <= self.ddof:
            return float("nan")
        return float(np.sqrt(state[2] / (state[0] - self.ddof)))

    def arrow(self) -> tuple[Any, str, Any] | None:
        options = pc.VarianceOptions(ddof=self.ddof, skip_nulls=self.ignore_nulls)
        return self.on, "stddev", options

    def finished(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        return pc.fill_null(column, float("nan")) if self.ignore_nulls else column


class Quantile(_Builtin):
    """The q-quantile, interpolated; the median without `q`."""

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
            return _NULL
        return [column_to_numpy(column.drop_null())]

    def combine(self, current: Any, new: Any) -> Any:
        if isinstance(current, _Null) or isinstance(new, _Null):
            return _NULL
        return current + new

    def finalize(self, state: Any) -> Any:
        if state is None or isinstance(state, _Null):
            return None
        values = np.concatenate(state)
        return float(np.quantile(values, self.q)) if len(values) else None


class Unique(_Builtin):
    """The distinct values, as a list in order of appearance."""

    kind = "unique"

    def __init__(
        self,
        on: str | None = None,
        ignore_nulls: bool = True,
        alias_name: str | None = None,
        encode_lists: bool = False,
    ) -> None:
        super().__init__(on, ignore_nulls, alias_name)
        self.encode_lists = encode_lists

    def aggregate_block(self, block: Block) -> Any:
        column = self.column(block)
        if self.encode_lists and pa.types.is_list(column.type):
            column = pc.list_flatten(column)
        try:
            values = pc.unique(column).to_pylist()
        except pa.ArrowNotImplementedError:  # lists and the like have no unique kernel
            return dict.fromkeys(_hashable(value) for value in column.to_pylist())
        return dict.fromkeys(values)

    def combine(self, current: Any, new: Any) -> Any:
        return {**current, **new}

    def finalize(self, state: Any) -> Any:
        values = list(state or ())
        return [value for value in values if value is not None or not self.ignore_nulls]


def _hashable(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
