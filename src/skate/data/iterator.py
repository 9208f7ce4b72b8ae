"""Iterators that travel: a whole dataset, or one of several parts of one execution."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import repeat
from typing import TYPE_CHECKING, Any, NoReturn, cast

import skate
from skate.data._api.iterating import Iterating
from skate.data._arrow.blocks import Block
from skate.data._arrow.schema import Schema
from skate.data._execution.bundles import bundle_of
from skate.data._execution.dealing import Deals, deals_until
from skate.data._execution.early_exit import Cancellation
from skate.data._execution.positions import BlockCursor
from skate.data._execution.split_coordinator import Coordinator, Turn
from skate.data._execution.split_readers import SplitReader
from skate.data._settings.context import DataContext

if TYPE_CHECKING:
    from skate.data.dataset import Dataset, MaterializedDataset

NodeIdStr = str  # the type of the hints in `streaming_split(locality_hints=...)`

BYTES_AHEAD = 128 << 20  # of small blocks more may wait: consumers may wait for each other
PATIENCE = 10.0  # seconds, after which it is asked why a part is not read that others wait for


class DataIterator(Iterating):
    """Iterate over rows, epoch after epoch; can be sent to other processes.

    `Dataset.iterator`, `Dataset.streaming_split` and `train.get_dataset_shard` make it.

    Example:
        >>> shard = skate.data.range(3).iterator()
        >>> [row["id"] for row in shard.iter_rows()]
        [0, 1, 2]
    """

    def __iter__(self) -> NoReturn:
        raise TypeError(
            "iterate over a part of a dataset with iter_rows(), iter_batches() or "
            "iter_torch_batches(), which makes the batches of a DataLoader"
        )

    def schema(self) -> Schema | None:
        """Return the names and types of the columns; None if there is no row to see them from."""
        raise TypeError("made by Dataset.iterator() and Dataset.streaming_split()")

    def stats(self) -> str:
        """Return what the last execution did."""
        return ""

    def get_context(self) -> DataContext:
        """Return the settings that executions obey."""
        return self._settings()

    def iter_epochs(self, max_epoch: int = -1) -> Iterator[DataIterator]:
        """Yield itself once per epoch: so loops of older versions of Ray ask for the next one.

        Args:
            max_epoch: How often; -1 is without end.
        """
        return repeat(self) if max_epoch < 0 else repeat(self, max_epoch)

    def materialize(self) -> MaterializedDataset:
        """Keep all rows of one epoch.

        Returns:
            A dataset whose rows are computed already.
        """
        from skate.data._plan import nodes as plan
        from skate.data.dataset import MaterializedDataset

        blocks = plan.Input(tuple(map(bundle_of, self._blocks())))
        return MaterializedDataset(blocks, self._settings().copy())


class WholeDataset(DataIterator):
    """Each epoch executes the dataset."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    def _blocks(self) -> Iterator[Block]:
        return self._dataset._blocks_ahead()

    def _settings(self) -> DataContext:
        return self._dataset._settings()

    def _shows_kept_blocks(self) -> bool:
        return self._dataset._shows_kept_blocks()

    def _repeatable(self) -> bool:
        return self._dataset._repeatable()

    def _keeps_order(self) -> bool:
        return self._dataset._keeps_order()

    def _resumable(self) -> bool:
        return self._dataset._resumable()

    def _cursor(self, start: Mapping[str, object] | None = None) -> BlockCursor:
        return self._dataset._cursor(start)

    def _about_state(self) -> dict[str, object]:
        return self._dataset._about_state()

    def _next_epoch(self) -> dict[str, object]:
        return self._dataset._next_epoch()

    def _set_epoch(self, state: Mapping[str, object]) -> None:
        self._dataset._set_epoch(state)

    def schema(self) -> Schema | None:
        return self._dataset.schema()

    def stats(self) -> str:
        return self._dataset.stats()

    def __repr__(self) -> str:
        return f"DataIterator({self._dataset!r})"


class Part(DataIterator):
    """One of the parts of a split."""

    def __init__(self, coordinator: Any, number: int, count: int, in_order: bool) -> None:
        self._coordinator = coordinator
        self._in_order = in_order
        self._number = number
        self._count = count
        self._epoch = 0
        self._deals: Deals = ()  # before the one that its rows are of

    def _blocks(self) -> Iterator[Block]:
        return self._blocks_of(())

    def _blocks_of(self, deals: Deals) -> Iterator[Block]:
        """Yield the blocks of an epoch, of the rows that earlier deals have left."""
        epoch, self._epoch = self._epoch, self._epoch + 1
        reader = SplitReader.here()
        turn = Turn(epoch, uuid.uuid4().hex)
        Cancellation.of_consumer().then(lambda: self._leave(turn))
        ahead = self._coordinator.next.remote(self._number, turn, reader, deals)
        try:
            while True:
                block = skate.get(ahead)
                if block is None:
                    return
                ahead = self._coordinator.next.remote(self._number, turn, reader, deals)
                yield block
        except GeneratorExit:
            self._leave(turn)
            raise

    def _leave(self, turn: Turn) -> None:
        with suppress(Exception):  # the session may be over
            self._coordinator.leave.remote(self._number, turn)

    def _keeps_order(self) -> bool:
        return self._in_order

    def _resumable(self) -> bool:
        return self._in_order

    def _cursor(self, start: Mapping[str, Any] | None = None) -> BlockCursor:
        self._deals = () if start is None else start["deals"]
        return BlockCursor(map(bundle_of, self._blocks_of(self._deals)))

    def _about_state(self) -> dict[str, object]:
        return {"parts": self._count, "part": self._number, "deals": self._deals}

    def _start_of(self, states: Any) -> dict[str, object]:
        given = [states] if isinstance(states, Mapping) else list(states)
        return {**given[0], "deals": deals_until(given)}

    def schema(self) -> Schema | None:
        schema: Schema | None = skate.get(self._coordinator.schema.remote())
        return schema

    def stats(self) -> str:
        stats: str = skate.get(self._coordinator.stats.remote())
        return stats

    def world_size(self) -> int:
        """Return how many parts there are."""
        return self._count

    def __repr__(self) -> str:
        return f"DataIterator(part {self._number} of {self._count})"


def split_iterators(dataset: Iterating, n: int, uneven: str) -> list[DataIterator]:
    """Return `n` iterators over one execution.

    What does not divide evenly is kept where it falls ("keep"), dropped ("drop"), or shared out
    with repetitions so that all parts have equally many rows and none is lost ("repeat").
    """
    if n < 1:
        raise ValueError(f"streaming_split takes a number of at least 1; got {n}")
    coordinator = skate.remote(Coordinator).remote(
        cast("Dataset", dataset), n, uneven, PATIENCE, BYTES_AHEAD
    )
    first_come = uneven == "keep" and n > 1
    in_order = not first_come and dataset._keeps_order()
    return [Part(coordinator, number, n, in_order) for number in range(n)]
