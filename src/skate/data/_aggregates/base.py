"""What an aggregation is.

One that has `arrow()` is done by Arrow's kernels for all groups at once; any other by states:
`zero()`, `aggregate_block(block)`, `combine(a, b)`, `finalize(state)`, per group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import GenericAlias
from typing import Any, TypeVar

import pyarrow as pa

from skate.data._arrow.blocks import Block, check_columns, rows_of
from skate.data._arrow.compute import pc
from skate.data._arrow.tensors import type_text

AccumulatorType = TypeVar("AccumulatorType")
AggOutputType = TypeVar("AggOutputType")
SupportsRichComparisonType = TypeVar("SupportsRichComparisonType")


class AggregateFn:
    """An aggregation of your own, by rows or by blocks.

    Args:
        init: Returns the first state, given the key of the group.
        merge: Joins two states.
        name: The name of the result.
        accumulate_row: Returns a state with one more row: `accumulate_row(state, row)`.
        accumulate_block: Returns a state with one more Arrow table, instead of `accumulate_row`.
        finalize: Returns the result of a state; by default the state itself.

    Raises:
        ValueError: Unless one of `accumulate_row` and `accumulate_block` is given.
        TypeError: If the name is no text.
    """

    needs_counts = False

    def __init__(
        self,
        init: Callable[[object], object],
        merge: Callable[[object, object], object],
        name: str,
        accumulate_row: Callable[[object, object], object] | None = None,
        accumulate_block: Callable[[object, Block], object] | None = None,
        finalize: Callable[[object], object] | None = None,
    ) -> None:
        if (accumulate_row is None) == (accumulate_block is None):
            raise ValueError("Exactly one of accumulate_row or accumulate_block must be provided")
        if not isinstance(name, str):
            raise TypeError(f"`name` must be a string; got {name!r}")
        self.name = name
        self._init = init
        self._merge = merge
        self._row = accumulate_row
        self._block = accumulate_block
        self._finalize = finalize or (lambda state: state)

    def zero(self, key: object = None) -> object:
        return self._init(key)

    def add(self, state: Any, block: Block) -> Any:
        """Return the state after one more block."""
        if self._block is not None:
            return self._block(state, block)
        assert self._row is not None
        for row in rows_of(block, plain=False):
            state = self._row(state, row)
        return state

    def merge(self, a: Any, b: Any) -> object:
        return self._merge(a, b)

    def finalize(self, state: Any) -> object:
        return self._finalize(state)

    def output_field(self, input_schema: pa.Schema) -> pa.Field | None:
        """Return name and type of the result, if they follow from the schema alone."""
        return None

    def arrow(self) -> tuple[object, str, object] | None:
        """Return a column, a hash aggregation of Arrow and its options, if that gives the same
        result."""
        return None

    def finished(self, column: pa.ChunkedArray, counts: pa.ChunkedArray) -> pa.ChunkedArray:
        """Bring what Arrow's aggregation gave into final form; `counts` are the values of each
        group, if `needs_counts`."""
        return column


def unfit(what: str, columns: Sequence[str], block: Block) -> TypeError:
    """Make the error for columns of types that Arrow cannot do this with."""
    kinds = ", ".join(f"column {name!r} is {type_text(block[name].type)}" for name in columns)
    return TypeError(
        f"cannot compute {what}: {kinds}; convert what is no number with map_batches before"
    )


class AggregateFnV2(AggregateFn):
    """An aggregation to derive from: override `aggregate_block`, `combine` and `finalize`.

    `AggregateFnV2[S, R]` says of what types its states and its result are.
    """

    @classmethod
    def __class_getitem__(cls, types: object) -> GenericAlias:
        return GenericAlias(cls, types)

    def __init__(
        self,
        name: str,
        zero_factory: Callable[[], object] = lambda: None,
        *,
        on: str | None = None,
        ignore_nulls: bool = True,
    ) -> None:
        self.name = name
        self.on = on
        self.ignore_nulls = ignore_nulls
        self._zero = zero_factory

    @property
    def _target_col_name(self) -> str | None:  # what Ray calls it, in examples of its guides
        return self.on

    @property
    def _ignore_nulls(self) -> bool:
        return self.ignore_nulls

    def get_target_column(self) -> str | None:
        """Return the column that is aggregated; None for all."""
        return self.on

    def get_agg_name(self) -> str:
        """Return what it computes, as "sum" for one that is named sum(x)."""
        return self.name.partition("(")[0]

    def aggregate_block(self, block: Block) -> object:
        """Compute the state of one block."""
        raise TypeError(f"{type(self).__name__} must override aggregate_block")

    def combine(self, current_accumulator: Any, new: Any) -> object:
        """Combine two states into that of both."""
        raise TypeError(f"{type(self).__name__} must override combine")

    def zero(self, key: object = None) -> object:
        return self._zero()

    def add(self, state: Any, block: Block) -> Any:
        if self.on is not None:
            check_columns([self.on], block.column_names)
        try:
            return self.merge(state, self.aggregate_block(block))
        except pa.ArrowNotImplementedError:
            raise unfit(self.name, [self.on] if self.on else [], block) from None

    def merge(self, a: Any, b: Any) -> object:
        """Combine two states; None is one without values and does not count."""
        if a is None or b is None:
            return b if a is None else a
        return self.combine(a, b)

    def finalize(self, accumulator: Any) -> object:
        return accumulator

    def column(self, block: Block) -> pa.ChunkedArray:
        assert self.on is not None
        return block[self.on]


class BuiltinAggregate(AggregateFnV2):
    """Named `kind(column)` unless an alias is given."""

    kind = ""

    def __init__(
        self, on: str | None = None, ignore_nulls: bool = True, alias_name: str | None = None
    ) -> None:
        name = alias_name or f"{self.kind}({on if on is not None else ''})"
        super().__init__(name, on=on, ignore_nulls=ignore_nulls)

    def output_field(self, input_schema: pa.Schema) -> pa.Field | None:
        kind = self.output_type(input_schema)
        return None if kind is None else pa.field(self.name, kind)

    def output_type(self, input_schema: pa.Schema) -> pa.DataType | None:
        return None

    def _known(self, result: object) -> object:
        """Return None for a result that NaN among the values has spoiled, as Ray does, unless
        missing ones count."""
        return None if self.ignore_nulls and is_nan(result) else result

    def _all_known(self, column: pa.ChunkedArray) -> pa.ChunkedArray:
        if not self.ignore_nulls or not pa.types.is_floating(column.type):
            return column
        return pc.if_else(pc.is_nan(column), pa.scalar(None, column.type), column)

    def _options(self) -> object:
        return pc.ScalarAggregateOptions(skip_nulls=self.ignore_nulls, min_count=1)


def is_nan(value: object) -> bool:
    return isinstance(value, float) and value != value


class Null:
    """A missing value that must not be ignored."""


NULL = Null()
