"""Numbers in a row."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np
import pyarrow as pa

from skate.data._blocks import Block
from skate.data._context import DataContext, driver_threads
from skate.data._tensors import column_of_array
from skate.data._transforms import ReadTask
from skate.data.sources.base import Source


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

    def read_tasks(self, parallelism: int | None) -> list[ReadTask]:
        blocks = parallelism or max(
            min(self.length, 4 * driver_threads()),
            4 * self.size_bytes() // DataContext.get_current().target_max_block_size,
        )
        return [
            ReadTask(partial(self._block, start, stop), rows=stop - start, size_bytes=0)
            for start, stop in spans(self.length, blocks, self.multiple)
        ]

    def _block(self, start: int, stop: int) -> Iterator[Block]:
        numbers = np.arange(start, stop)
        if self.shape is None:
            yield pa.table({"id": numbers})
        else:
            ones = np.ones(self.shape, np.int64)
            tensors = numbers.reshape(-1, *([1] * len(self.shape))) * ones
            yield pa.table({"data": column_of_array(tensors)})


def spans(total: int, count: int, multiple: int = 1) -> list[tuple[int, int]]:
    """At most `count` neighbouring ranges of about equal length that cover 0 … total."""
    units = -(-total // multiple)
    count = max(1, min(count, units))
    ends = [min(units * number // count * multiple, total) for number in range(count + 1)]
    return list(pairwise(ends))
