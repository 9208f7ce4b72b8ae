"""Elements of a torch Dataset."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

from skate.data._blocks import Block, plain_block
from skate.data._context import driver_threads
from skate.data._transforms import ReadTask
from skate.data.sources.base import Source
from skate.data.sources.generated import spans

ROWS_PER_BLOCK = 1024


class TorchSource(Source):
    """The elements of a map-style or iterable dataset, as plain values."""

    name = "Torch"

    def __init__(self, dataset: Any, local_read: bool) -> None:
        self.dataset = dataset
        self.runs_python = not local_read
        self.iterable = not hasattr(dataset, "__getitem__") or not hasattr(dataset, "__len__")

    def count(self) -> int | None:
        return None if self.iterable else len(self.dataset)

    def read_tasks(self, parallelism: int | None) -> list[ReadTask]:
        if self.iterable:
            return [ReadTask(partial(_stream, self.dataset), "torch dataset", streams=True)]
        total = len(self.dataset)
        # The size of elements is unknown; workers are worth it for anything but a few.
        size = total << 12
        return [
            ReadTask(partial(_items, self.dataset, start, stop), f"items {start} to {stop}", size)
            for start, stop in spans(total, parallelism or 8 * driver_threads())
        ]


def _items(dataset: Any, start: int, stop: int) -> Iterator[Block]:
    if stop > start:
        yield plain_block([dataset[number] for number in range(start, stop)])


def _stream(dataset: Any) -> Iterator[Block]:
    elements = iter(dataset)
    while rows := list(islice(elements, ROWS_PER_BLOCK)):
        yield plain_block(rows)
