"""Numbers in a row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import Block
from skate.data._arrow.tensors import column_of_array
from skate.data._execution.transforms import SourceTask
from skate.data._settings.context import MOST_BLOCKS, DataContext, driver_threads
from skate.data.sources.base import Source

if TYPE_CHECKING:
    from skate._core.arrays import Array


@dataclass(frozen=True)
class Range(Source):
    """0 … count - 1, as numbers in `id` or, with a shape, as tensors in `data`."""

    length: int
    shape: tuple[int, ...] | None = None
    multiple: int = 1  # pieces have a multiple of this many rows, all but the last

    @property
    def name(self) -> str:  # type: ignore[override]
        return "Range"

    def schema(self) -> pa.Schema:
        if self.shape is None:
            return pa.schema([("id", pa.int64())])
        return pa.schema([("data", pa.fixed_shape_tensor(pa.int64(), self.shape))])

    def count(self) -> int:
        return self.length

    def size_bytes(self) -> int:
        return self.length * 8 * math.prod(self.shape or ())

    def aligned(self, batch_size: int) -> Source:
        return replace(self, multiple=batch_size)

    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        blocks = parallelism or max(
            min(self.length, 4 * driver_threads()),
            4 * self.size_bytes() // DataContext.get_current().target_max_block_size,
        )
        blocks = min(blocks, MOST_BLOCKS)
        rows_bytes = 8 * math.prod(self.shape or ())
        most = max(1, DataContext.get_current().target_max_block_size // max(1, rows_bytes))
        step = -(-most // self.multiple) * self.multiple
        return [
            SourceTask(partial(self._blocks, start, stop, step), rows=stop - start, size_bytes=0)
            for start, stop in spans(self.length, blocks, self.multiple)
        ]

    def _blocks(self, start: int, stop: int, step: int) -> Iterator[Block]:
        """Yield the rows from `start` to `stop`, at most `step` at a time; one block if none."""
        for first in range(start, stop, step) or (start,):
            yield self._block(np.arange(first, min(first + step, stop)))

    def _block(self, numbers: Array) -> Block:
        if self.shape is None:
            return pa.table({"id": column_of_array(numbers)})
        ones = np.ones(self.shape, np.int64)
        tensors = numbers.reshape(-1, *([1] * len(self.shape))) * ones
        return pa.table({"data": column_of_array(tensors)})


def spans(total: int, count: int, multiple: int = 1) -> list[tuple[int, int]]:
    """Divide 0 … total into at most `count` neighbouring ranges of about equal length."""
    units = -(-total // multiple)
    count = max(1, min(count, units))
    ends = [min(units * number // count * multiple, total) for number in range(count + 1)]
    return list(pairwise(ends))
