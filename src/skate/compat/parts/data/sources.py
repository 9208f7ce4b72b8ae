"""Sources of the inside of Ray's data library that its guides give to `read_datasource`."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np

from skate._core.arrays import Array
from skate.data.block import BlockMetadata
from skate.data.context import DataContext
from skate.data.datasource import Datasource, ReadTask
from skate.data.sources.generated import spans


class RangeDatasource(Datasource):
    """The numbers from 0 on.

    Args:
        n: How many there are.
        block_format: "tensor" makes a tensor of each, which is full of it.
        tensor_shape: The shape of these tensors.
        column_name: The name of the column; by default `value`, and `data` for tensors.
    """

    def __init__(
        self,
        n: int,
        block_format: str = "arrow",
        tensor_shape: Sequence[int] = (1,),
        column_name: str | None = None,
    ) -> None:
        self._n = n
        self._shape = tuple(tensor_shape) if block_format == "tensor" else ()
        self._name = column_name or ("data" if self._shape else "value")

    def estimate_inmemory_data_size(self) -> int:
        return self._n * self._row_bytes

    def get_read_tasks(
        self,
        parallelism: int,
        per_task_row_limit: int | None = None,
        data_context: DataContext | None = None,
    ) -> list[ReadTask]:
        return [
            ReadTask(
                partial(self._batches, start, stop),
                BlockMetadata(stop - start, (stop - start) * self._row_bytes),
                per_task_row_limit=per_task_row_limit,
            )
            for start, stop in spans(self._n, parallelism)
        ]

    @property
    def _row_bytes(self) -> int:
        return 8 * math.prod(self._shape)

    def _batches(self, start: int, stop: int) -> Iterator[dict[str, Array]]:
        numbers: Any = np.arange(start, stop).reshape(-1, *([1] * len(self._shape)))
        yield {self._name: numbers * np.ones(self._shape, np.int64)}
