"""A worker's part of a dataset, which knows how far it was read.

A checkpoint that is reported in the middle of an epoch remembers the rows that were read until
then; workers that begin again from it go on behind them in their first epoch. Where each epoch has
an order of its own, those rows cannot be told from the others: the epoch begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import skate
from skate.data._api.epochs import DerivedEpochs, Epochs, StatefulEpochs
from skate.data._api.iterating import Iterating
from skate.data._arrow.blocks import Block
from skate.data._execution.positions import BlockCursor
from skate.data._settings.context import DataContext
from skate.data.iterator import DataIterator


class Shard(DataIterator):
    """What `get_dataset_shard` gives. `position` is the number of rows that the loop has taken of
    the epoch it is in; between two epochs it is 0."""

    def __init__(
        self, part: DataIterator, skip: int = 0, context: DataContext | None = None
    ) -> None:
        self._part = part
        self._skip = skip
        self._context = context
        self.position = 0

    def _blocks(self) -> Iterator[Block]:
        skip, self._skip = self._skip, 0
        for block in self._part._blocks():
            if not skip:
                yield block
            elif skip >= block.num_rows:
                skip -= block.num_rows
            else:
                yield block.slice(skip)
                skip = 0

    def take_over(self, other: Shard, skip: int) -> None:
        """Be this part from now on, whose first rows were read; iterations begin anew."""
        self._part, self._context = other._part, other._context
        self._skip = skip if self._keeps_order() else 0

    def abandon(self) -> None:
        """End what deals out the parts: whoever waits for rows of one gets an error."""
        coordinator = getattr(self._part, "_coordinator", None)
        if coordinator is not None:
            skate.kill(coordinator)

    def _resumable(self) -> bool:
        return self._part._resumable()

    def _cursor(self, start: Mapping[str, object] | None = None) -> BlockCursor:
        if start is not None:
            self._skip = 0
            return self._part._cursor(start)
        return super()._cursor() if self._skip else self._part._cursor()

    def _about_state(self) -> dict[str, object]:
        return self._part._about_state()

    def _next_epoch(self) -> dict[str, object]:
        return self._part._next_epoch()

    def _set_epoch(self, state: Mapping[str, object]) -> None:
        self._part._set_epoch(state)

    def _start_of(self, states: object) -> dict[str, object]:
        return self._part._start_of(states)

    def _shows_kept_blocks(self) -> bool:
        return self._part._shows_kept_blocks()

    def _keeps_order(self) -> bool:
        return self._part._keeps_order()

    def iter_rows(self, **options: Any) -> Iterable[Any]:
        epochs = super().iter_rows(**options)
        return Epochs(lambda: self._counted(epochs, 1)) if self._keeps_order() else epochs

    def iter_batches(self, **options: Any) -> StatefulEpochs[Any]:
        return self._counting(super().iter_batches(**options), _rows_each(options))

    def iter_torch_batches(self, **options: Any) -> StatefulEpochs[Any]:
        return self._counting(super().iter_torch_batches(**options), _rows_each(options))

    def _counting(
        self, epochs: StatefulEpochs[object], rows_each: int | None
    ) -> StatefulEpochs[Any]:
        if rows_each is None or not self._keeps_order():
            return epochs
        return DerivedEpochs(epochs, lambda: self._counted(epochs, rows_each))

    def _counted(self, items: Iterable[object], rows_each: int) -> Iterator[Any]:
        if getattr(items, "goes_on", False):  # the loop itself knows where it was
            yield from items
            return
        self.position = self._skip
        try:
            for item in items:
                self.position += rows_each
                yield item
        finally:  # the epoch is over, or the loop has had enough of it
            self.position = 0

    def get_context(self) -> DataContext:
        """The settings that the dataset is executed with."""
        return self._context or self._part.get_context()

    def schema(self) -> Any:
        return self._part.schema()

    def stats(self) -> str:
        return self._part.stats()

    def world_size(self) -> int:
        """How many parts there are."""
        return int(getattr(self._part, "world_size", lambda: 1)())

    def __getattr__(self, name: str) -> Any:
        """Until Ray 2.3 a shard was a Dataset. What only those can do is done with the rows of one
        epoch, in which all workers of the group take part."""
        from skate.data.dataset import Dataset

        if name.startswith("_") or not callable(getattr(Dataset, name, None)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return lambda *args, **kwargs: getattr(self.materialize(), name)(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self._part)


def with_options(dataset: Iterating, options: Any) -> Iterating:
    """The dataset with other `execution_options`, if they are given, than its own settings say."""
    context = dataset._settings().copy()
    if options is not None:
        context.execution_options = options
    return dataset._obeying(context)


def _rows_each(options: dict[str, Any]) -> int | None:
    """Rows per batch; None where the rows that were read are not the first ones of the epoch."""
    if options.get("local_shuffle_buffer_size"):
        return None
    size: int | None = options.get("batch_size", 256)
    return size


def going_on(
    shares: list[dict[str, object]], before: list[dict[str, int]] | None
) -> list[dict[str, Any]]:
    """The datasets of all workers, from where they were. Another number of workers shares the rows
    out differently: then an epoch begins anew."""
    if before is None or len(before) != len(shares):
        before = [{} for _ in shares]
    return [
        {name: _shard(part, place.get(name, 0)) for name, part in share.items()}
        for share, place in zip(shares, before, strict=True)
    ]


def _shard(part: object, skip: int) -> Any:
    """Whatever else a DataConfig of the user's own has given is left alone."""
    if not isinstance(part, DataIterator):
        return part
    if skip and not part._keeps_order():
        skip = 0
    return Shard(part._part, skip, part._context) if isinstance(part, Shard) else Shard(part, skip)
