"""Blocks as sources and sinks of your own see them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pyarrow as pa

from skate.data._arrow.blocks import (
    FORMATS,
    Batch,
    Block,
    Row,
    batch_of,
    block_of_batch,
    check_format,
    numpy_of,
    pandas_of,
    rows_of,
)
from skate.data.aggregate import Count, Max, Mean, Min, Sum

__all__ = [
    "VALID_BATCH_FORMATS",
    "AggType",
    "Block",
    "BlockAccessor",
    "BlockExecStats",
    "BlockMetadata",
    "CallableClass",
    "DataBatch",
    "KeyType",
    "U",
    "UserDefinedFunction",
]

AggType = TypeVar("AggType")  # what an aggregation keeps of rows, in annotations of your own ones
KeyType = TypeVar("KeyType")  # of a group
U = TypeVar("U", covariant=True)  # what an aggregation comes to

DataBatch: TypeAlias = Batch  # what functions of batches are given, and return
CallableClass: TypeAlias = type  # whose instances are called
UserDefinedFunction: TypeAlias = Callable[..., Any] | CallableClass
VALID_BATCH_FORMATS: list[str | None] = [*FORMATS, None]


@dataclass
class BlockExecStats:
    """What making a block has cost."""

    start_time_s: float | None = None
    end_time_s: float | None = None
    wall_time_s: float | None = None
    cpu_time_s: float | None = None
    udf_time_s: float | None = 0
    node_id: str | None = None
    max_uss_bytes: int = 0
    task_idx: int | None = None


@dataclass
class BlockMetadata:
    """What is known about a block without looking."""

    num_rows: int | None = None
    size_bytes: int | None = None
    input_files: list[str] | None = None
    exec_stats: Any = None
    schema: Any = None  # as older versions of Ray had it; today `ReadTask` has one


class BlockAccessor:
    """A block in the form that you like: `BlockAccessor.for_block(block).to_pandas()`."""

    def __init__(self, block: Block) -> None:
        self._block = block

    @staticmethod
    def for_block(block: object) -> BlockAccessor:
        """Make an accessor of an Arrow table, a pandas frame or a dictionary of arrays."""
        return BlockAccessor(block_of_batch(block))

    @staticmethod
    def batch_to_block(batch: object) -> Block:
        return block_of_batch(batch)

    def to_block(self) -> Block:
        return self._block

    def to_arrow(self) -> pa.Table:
        return self._block

    def to_pandas(self) -> Any:
        return pandas_of(self._block)

    def to_numpy(self, columns: str | list[str] | None = None) -> Any:
        """Return a dictionary of arrays, or the array of one column."""
        if isinstance(columns, str):
            return numpy_of(self._block.select([columns]))[columns]
        return numpy_of(self._block if columns is None else self._block.select(columns))

    def to_default(self) -> Block:
        return self._block

    def to_batch_format(self, batch_format: str | None) -> Any:
        return batch_of(self._block, check_format(batch_format))

    def iter_rows(self, public_row_format: bool = True) -> Iterator[Row]:
        """Yield the rows as dictionaries, their one format whatever `public_row_format` says."""
        return rows_of(self._block, plain=False)

    def num_rows(self) -> int:
        return int(self._block.num_rows)

    def size_bytes(self) -> int:
        return int(self._block.nbytes)

    def schema(self) -> pa.Schema:
        return self._block.schema

    def column_names(self) -> list[str]:
        return list(self._block.column_names)

    def select(self, columns: list[str]) -> Block:
        return self._block.select(columns)

    def slice(self, start: int, end: int, copy: bool = False) -> Block:
        """Return the rows from `start` to `end`, as a view or a copy."""
        part = self._block.slice(start, end - start)
        return part.take(pa.array(range(part.num_rows))) if copy else part

    def take(self, indices: list[int]) -> Block:
        return self._block.take(pa.array(indices))

    # -- numbers about a column, for aggregations of your own -----------------------------------

    def count(self, on: str, ignore_nulls: bool = False) -> int:
        return int(self._reduced(Count, on, ignore_nulls))

    def sum(self, on: str, ignore_nulls: bool) -> Any:
        return self._reduced(Sum, on, ignore_nulls)

    def min(self, on: str, ignore_nulls: bool) -> Any:
        return self._reduced(Min, on, ignore_nulls)

    def max(self, on: str, ignore_nulls: bool) -> Any:
        return self._reduced(Max, on, ignore_nulls)

    def mean(self, on: str, ignore_nulls: bool) -> Any:
        return self._reduced(Mean, on, ignore_nulls)

    def _reduced(self, kind: Any, on: str, ignore_nulls: bool) -> Any:
        function = kind(on, ignore_nulls=ignore_nulls)
        return function.finalize(function.add(function.zero(), self._block))

    def get_metadata(
        self, input_files: list[str] | None = None, exec_stats: object = None
    ) -> BlockMetadata:
        return BlockMetadata(self.num_rows(), self.size_bytes(), input_files, exec_stats)
