"""A worker's part of a dataset, which knows how far it was read.

A checkpoint that is reported in the middle of an epoch remembers the rows that were read until
then; workers that begin again from it go on behind them in their first epoch. If there are more of
them than before, or fewer, what is left is dealt out anew. Where each epoch has an order of its
own, those rows cannot be told from the others: the epoch begins anew.

A place in an epoch is `{"rows": 20, "parts": 2, "deals": [[10, 10, 10]]}`: 20 rows of each of two
parts were read, of what three workers had left, who had read ten each.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import skate
from skate.data._api.epochs import DerivedEpochs, Epochs, StatefulEpochs
from skate.data._api.iterating import Iterating
from skate.data._arrow.blocks import Block
from skate.data._execution.dealing import Deals
from skate.data._execution.positions import BlockCursor
from skate.data._settings.context import DataContext
from skate.data.iterator import DataIterator, Part

Place = Mapping[str, Any]
RowsByPart = list[int]


class Shard(DataIterator):
    """What `get_dataset_shard` gives. `position` is the number of rows that the loop has taken of
    the epoch it is in; between two epochs it is 0."""

    def __init__(
        self,
        part: DataIterator,
        skip: int = 0,
        context: DataContext | None = None,
        deals: list[RowsByPart] | None = None,
    ) -> None:
        self._part = part
        self._skip = skip  # of this part, in the next iteration,
        self._deals = deals or []  # which is of what these have left
        self._context = context
        self.position = 0
        self._dealt: list[RowsByPart] = []  # before the rows of the iteration under way
        self._iteration: object = None

    def _place(self) -> dict[str, object] | None:
        """Return where the loop is in its epoch; None between two epochs."""
        reads = self._iteration is not None
        rows, deals = (self.position, self._dealt) if reads else (self._skip, self._deals)
        if not rows and not deals:
            return None
        return {"rows": rows, "parts": self.world_size(), "deals": deals}

    def _blocks(self) -> Iterator[Block]:
        skip, self._skip = self._skip, 0
        deals, self._deals = self._deals, []
        for block in self._dealt_blocks(deals):
            if not skip:
                yield block
            elif skip >= block.num_rows:
                skip -= block.num_rows
            else:
                yield block.slice(skip)
                skip = 0

    def _dealt_blocks(self, deals: list[RowsByPart]) -> Iterator[Block]:
        if not deals or not isinstance(self._part, Part):
            return self._part._blocks()
        before: Deals = [(len(rows), dict(enumerate(rows))) for rows in deals]
        return self._part._blocks_of(before)

    def take_over(self, other: Shard, place: Place | None) -> None:
        """Be this part from now on, of an epoch in which all were at this place; iterations begin
        anew."""
        self._part, self._context = other._part, other._context
        places = [] if place is None else [place] * int(place["parts"])
        self._skip, self._deals = _start(self._part, places, getattr(self._part, "_number", 0))
        self._iteration = None

    def abandon(self) -> None:
        """End what deals out the parts: whoever waits for rows of one gets an error."""
        coordinator = getattr(self._part, "_coordinator", None)
        if coordinator is not None:
            skate.kill(coordinator)

    def _resumable(self) -> bool:
        return self._part._resumable()

    def _cursor(self, start: Mapping[str, object] | None = None) -> BlockCursor:
        if start is not None:
            self._skip, self._deals = 0, []
            return self._part._cursor(start)
        return super()._cursor() if self._skip or self._deals else self._part._cursor()

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
        mine = self._iteration = object()
        self.position, self._dealt = self._skip, self._deals
        try:
            for item in items:
                self.position += rows_each
                yield item
        finally:  # the epoch is over, or the loop has had enough of it
            if self._iteration is mine:
                self._iteration, self.position = None, 0

    def get_context(self) -> DataContext:
        """Return the settings that the dataset is executed with."""
        return self._context or self._part.get_context()

    def schema(self) -> Any:
        return self._part.schema()

    def stats(self) -> str:
        return self._part.stats()

    def world_size(self) -> int:
        """Return how many parts there are."""
        return int(getattr(self._part, "world_size", lambda: 1)())

    def __getattr__(self, name: str) -> Any:
        """Do what only a Dataset can, which a shard was until Ray 2.3, with the rows of one epoch,
        in which all workers of the group take part."""
        from skate.data.dataset import Dataset

        if name.startswith("_") or not callable(getattr(Dataset, name, None)):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        return lambda *args, **kwargs: getattr(self.materialize(), name)(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self._part)


def with_options(dataset: Iterating, options: Any) -> Iterating:
    """Return the dataset with other `execution_options`, if given, than its own settings say."""
    context = dataset._settings().copy()
    if options is not None:
        context.execution_options = options
    return dataset._obeying(context)


def _rows_each(options: dict[str, Any]) -> int | None:
    """Return the rows per batch; None where those that were read are not the first of the
    epoch."""
    if options.get("local_shuffle_buffer_size"):
        return None
    size: int | None = options.get("batch_size", 256)
    return size


def going_on(
    shares: list[dict[str, object]], before: list[dict[str, Any]] | None
) -> list[dict[str, Any]]:
    """Set up the datasets of all workers, from where those before them were."""
    return [
        {name: _shard(part, _places(name, before or []), rank) for name, part in share.items()}
        for rank, share in enumerate(shares)
    ]


def _places(name: str, before: list[dict[str, Any]]) -> list[Place | None]:
    """Return where each rank was in a dataset. Folders of earlier versions have its rows only."""
    found = [ranks.get(name) for ranks in before]
    return [
        {"rows": place, "parts": len(before), "deals": []} if isinstance(place, int) else place
        for place in found
    ]


def _start(
    part: DataIterator, places: Sequence[Place | None], rank: int
) -> tuple[int, list[RowsByPart]]:
    """Return how many rows of a part to leave out, and which deals there were before its rows."""
    first = next((place for place in places if place is not None), None)
    if first is None or not part._keeps_order():
        return 0, []
    if isinstance(part, Part) and part.world_size() != first["parts"]:
        return 0, [*first["deals"], [0 if place is None else place["rows"] for place in places]]
    own = places[rank] if rank < len(places) else first
    return 0 if own is None else int(own["rows"]), list(first["deals"])


def _shard(part: object, places: Sequence[Place | None], rank: int) -> Any:
    """Make a worker's shard; whatever else a DataConfig of the user's own has given is left
    alone."""
    if not isinstance(part, DataIterator):
        return part
    inner, context = (part._part, part._context) if isinstance(part, Shard) else (part, None)
    skip, deals = _start(inner, places, rank)
    return Shard(inner, skip, context, deals)
