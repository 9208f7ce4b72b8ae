"""Elements of a torch Dataset."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from functools import partial
from itertools import islice
from typing import Any

import skate
from skate.data._arrow.blocks import Block, block_of_rows
from skate.data._execution.transforms import SourceTask
from skate.data._settings.context import driver_threads
from skate.data.sources.base import Source
from skate.data.sources.generated import spans

ROWS_PER_BLOCK = 1024
ELEMENT = 1 << 16  # bytes, as a guess: workers are worth it for anything but a few


class TorchSource(Source):
    """The elements of a map-style or iterable dataset: dictionaries as rows, others as plain
    values."""

    name = "Torch"

    def __init__(self, dataset: Any, local_read: bool) -> None:
        self.dataset = dataset
        self.runs_python: bool = not local_read
        self.iterable: bool = _is_iterable(dataset)

    def count(self) -> int | None:
        return None if self.iterable else len(self.dataset)

    def read_tasks(self, parallelism: int | None) -> list[SourceTask]:
        shared = Shared(self.dataset)
        if self.iterable:
            return [SourceTask(partial(_stream, shared), "torch dataset", streams=True)]
        return [
            SourceTask(
                partial(_items, shared, start, stop),
                f"items {start} to {stop}",
                (stop - start) * ELEMENT,
            )
            for start, stop in spans(len(self.dataset), parallelism or 8 * driver_threads())
        ]


def _is_iterable(dataset: Any) -> bool:
    """Return whether it is read as one stream. torch's own class has a `__getitem__` that only
    raises, and may have a length."""
    torch = sys.modules.get("torch.utils.data")
    if torch is not None and isinstance(dataset, torch.IterableDataset):
        return True
    return not (hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"))


class Shared:
    """A value that many tasks use: in this process itself, elsewhere one copy in the store."""

    def __init__(self, value: object) -> None:
        self._value = value
        self._ref: skate.ObjectRef[Any] | None = None

    def get(self) -> Any:
        if self._ref is None or self._value is not None:
            return self._value
        return skate.get(self._ref)

    def __getstate__(self) -> dict[str, Any]:
        if self._ref is None:
            self._ref = skate.put(self._value)
        return {"_value": None, "_ref": self._ref}


def _items(shared: Shared, start: int, stop: int) -> Iterator[Block]:
    dataset = shared.get()
    if stop > start:
        yield block_of_rows([dataset[number] for number in range(start, stop)])


def _stream(shared: Shared) -> Iterator[Block]:
    elements = iter(shared.get())
    while rows := list(islice(elements, ROWS_PER_BLOCK)):
        yield block_of_rows(rows)
