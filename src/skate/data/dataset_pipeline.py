"""Pipelines of older versions of Ray: a dataset window by window, and over and over again.

    dataset ──window()──► windows, each a Dataset of a few blocks ──repeat()──► epochs of these

A Dataset streams by itself, so that nothing here makes a program faster; it lets programs run that
were written for it, with what they may rely on: operations on a pipeline see one window at a time,
and a dataset that is repeated is computed once.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property, partial
from itertools import count, islice
from typing import TYPE_CHECKING, Any

from skate.data._api.epochs import Epochs
from skate.data._api.iterating import Iterating
from skate.data._arrow.blocks import Block, Row
from skate.data._arrow.schema import Schema
from skate.data._execution.bundles import Bundle
from skate.data._plan import nodes as plan

if TYPE_CHECKING:
    from skate.data.dataset import Dataset
    from skate.data.iterator import DataIterator

# Operations on each window, and what they are called on a Dataset.
_EACH_WINDOW = {
    **dict.fromkeys(
        (
            "add_column", "drop_columns", "filter", "flat_map", "map", "map_batches",
            "random_sample", "rename_columns", "select_columns", "with_column",
            "random_shuffle", "repartition", "sort",  # until Ray 1.11
        )
    ),
    "random_shuffle_each_window": "random_shuffle",
    "randomize_block_order_each_window": "randomize_block_order",
    "repartition_each_window": "repartition",
    "sort_each_window": "sort",
}  # fmt: skip


class Repeated(Iterating):
    """The same rows `times` times; None: without end."""

    _times: int | None

    @abstractmethod
    def _once(self) -> Iterating:
        """Return the rows of one epoch."""

    @abstractmethod
    def _blocks_once(self) -> Iterator[Block]:
        """Yield the blocks of one epoch."""

    def _blocks(self) -> Iterator[Block]:
        for _ in self._numbers():
            yield from self._blocks_once()

    def _numbers(self) -> Iterable[int]:
        return count() if self._times is None else range(self._times)

    def iter_epochs(self, max_epoch: int = -1) -> Iterator[Any]:
        """Iterate over the epochs, each to be iterated over as often as you like.

        Args:
            max_epoch: How many at the most; -1 is all.
        """
        numbers = islice(self._numbers(), None if max_epoch < 0 else max_epoch)
        return (self._once() for _ in numbers)

    def take(self, limit: int = 20) -> list[Row]:
        """Return the first rows.

        Args:
            limit: How many at the most.
        """
        return list(islice(self.iter_rows(), limit))

    def take_all(self, limit: int = 100_000) -> list[Row]:
        """Return all rows.

        Args:
            limit: How many there may be.

        Raises:
            ValueError: If there are more.
        """
        rows = self.take(limit + 1)
        if len(rows) > limit:
            raise ValueError(f"there are more rows than the limit, {limit}: raise it")
        return rows

    def show(self, limit: int = 20) -> None:
        """Print the first rows.

        Args:
            limit: How many at the most.
        """
        for row in self.take(limit):
            print(row)

    def count(self) -> int:
        """Return the number of rows of all epochs.

        Raises:
            ValueError: If there is no end of them.
        """
        self._check_end("count")
        return sum(block.num_rows for block in self._blocks())

    def _check_end(self, what: str) -> None:
        if self._times is None:
            raise ValueError(
                f"a pipeline that is repeated without end has no {what}; give repeat() a number"
            )


class DatasetPipeline(Repeated):
    """Take windows, which are datasets, for one or more epochs.

    `Dataset.window()` and `Dataset.repeat()` make it.

    Args:
        windows: The datasets, one after the other.
        times: How many epochs; None is for ever.
    """

    def __init__(self, windows: Iterable[Dataset], times: int | None = 1) -> None:
        self._windows = windows
        self._times = times

    @staticmethod
    def from_iterable(iterable: Iterable[Callable[[], Dataset]]) -> DatasetPipeline:
        """Make a pipeline with one window from each of several functions.

        Args:
            iterable: Functions that make a dataset.
        """
        return DatasetPipeline(Epochs(lambda: (make() for make in iterable)))

    def _once(self) -> DatasetPipeline:
        return DatasetPipeline(self._windows)

    def _blocks_once(self) -> Iterator[Block]:
        return (block for window in self._windows for block in window._blocks())

    def repeat(self, times: int | None = None) -> DatasetPipeline:
        """Take the windows epoch after epoch.

        Args:
            times: How often; None is for ever.

        Raises:
            ValueError: If the pipeline is repeated already.
        """
        if self._times != 1:
            raise ValueError(f"the pipeline is repeated already, {self._times or 'endless'} times")
        return DatasetPipeline(self._windows, times)

    def iter_datasets(self) -> Iterator[Dataset]:
        """Iterate over the windows of all epochs."""
        return (window for epoch in self.iter_epochs() for window in epoch._windows)

    def foreach_window(self, fn: Callable[[Dataset], Dataset]) -> DatasetPipeline:
        """Transform each window.

        Args:
            fn: Takes a dataset and returns one.
        """
        windows = self._windows
        return DatasetPipeline(Epochs(lambda: map(fn, windows)), self._times)

    def rewindow(self, *, blocks_per_window: int, preserve_epoch: bool = True) -> DatasetPipeline:
        """Make windows of another size.

        Args:
            blocks_per_window: How many blocks they have.
            preserve_epoch: True: no window spans two epochs.

        Raises:
            ValueError: If `preserve_epoch` is False.
        """
        if not preserve_epoch:
            raise ValueError("windows that span epochs do not exist here: preserve_epoch is True")
        windows = self._windows

        def start() -> Iterator[Dataset]:
            bundles = (bundle for window in windows for bundle in window._bundles())
            return grouped(bundles, blocks_per_window, None)

        return DatasetPipeline(Epochs(start), self._times)

    def split(
        self, n: int, *, equal: bool = False, locality_hints: Sequence[object] | None = None
    ) -> list[PipelinePart]:
        """Split the pipeline for consumers in parallel; see `Dataset.streaming_split`.

        Args:
            n: How many parts.
            equal: Whether all get the same number of rows, dropping what does not divide.
            locality_hints: One node per part, or None; here all are near.

        Raises:
            ValueError: If there are not as many `locality_hints` as parts.
        """
        if locality_hints is not None and len(locality_hints) != n:
            raise ValueError(f"{n} parts need {n} locality_hints; got {len(locality_hints)}")
        return self._parts(n, "drop" if equal else "keep")

    def _parts(self, n: int, uneven: str) -> list[PipelinePart]:
        from skate.data.iterator import split_iterators

        parts = split_iterators(self._once(), n, uneven)
        return [PipelinePart(part, self._times) for part in parts]

    def schema(self, fetch_if_missing: bool = True) -> Schema | None:
        """Return the names and types of the columns of the first window.

        Args:
            fetch_if_missing: Whether the first row is computed if there is no other way.
        """
        first = next(iter(self._windows), None)
        return None if first is None else first.schema(fetch_if_missing)

    def sum(self) -> int:
        """Add up all rows, which have one column.

        Raises:
            ValueError: If there is no end of them.
        """
        self._check_end("sum")
        return sum(window.sum() for window in self.iter_datasets())

    def show_windows(self, limit_per_dataset: int = 10) -> None:
        """Print the first rows of each window.

        Args:
            limit_per_dataset: How many of each at the most.
        """
        for number, window in enumerate(self._windows):
            print(f"=== window {number} ===")
            window.show(limit_per_dataset)

    def stats(self, exclude_first_window: bool = True) -> str:
        """Return what the pipeline is; its windows are datasets, and have statistics of their own.

        Args:
            exclude_first_window: Without effect: there are no statistics to leave it out of.
        """
        return repr(self)

    def __getattr__(self, name: str) -> Any:
        if name in _EACH_WINDOW:
            return partial(self._each, _EACH_WINDOW[name] or name)
        if name.startswith("write_"):
            return partial(self._write, name)
        raise AttributeError(
            f"a DatasetPipeline has no {name!r}; foreach_window() gives you each window as a "
            "Dataset, which has all operations"
        )

    def _each(self, method: str, *args: object, **kwargs: object) -> DatasetPipeline:
        return self.foreach_window(lambda window: getattr(window, method)(*args, **kwargs))

    def _write(self, method: str, *args: object, **kwargs: object) -> None:
        self._check_end("end to write")
        for window in self.iter_datasets():
            getattr(window, method)(*args, **kwargs)

    def __repr__(self) -> str:
        return f"DatasetPipeline(epochs={'endless' if self._times is None else self._times})"


class PipelinePart(Repeated):
    """One of the parts of a pipeline, which travels to its consumer."""

    def __init__(self, part: DataIterator, times: int | None) -> None:
        self._part = part
        self._times = times

    def _once(self) -> DataIterator:
        return self._part

    def _blocks_once(self) -> Iterator[Block]:
        return self._part._blocks()

    def schema(self) -> Schema | None:
        return self._part.schema()

    def stats(self) -> str:
        return self._part.stats()


class KeptWindow:
    """A dataset as one window, which is computed when it is first looked at and never again."""

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset

    @cached_property
    def _rows(self) -> Dataset:
        return self._dataset.materialize()

    def __iter__(self) -> Iterator[Dataset]:
        return iter([self._rows])


def windows_of(
    dataset: Dataset, blocks_per_window: int | None, bytes_per_window: int | None
) -> Iterable[Dataset]:
    """Divide a dataset into windows, computed as they are asked for."""
    if blocks_per_window is not None and bytes_per_window is not None:
        raise ValueError("give blocks_per_window or bytes_per_window, not both")
    for name, number in (("blocks", blocks_per_window), ("bytes", bytes_per_window)):
        if number is not None and number < 1:
            raise ValueError(f"{name}_per_window takes a number of at least 1; got {number}")
    blocks = 10 if blocks_per_window is None and bytes_per_window is None else blocks_per_window
    return Epochs(lambda: grouped(dataset._bundles(), blocks, bytes_per_window))


def grouped(bundles: Iterator[Bundle], blocks: int | None, size: int | None) -> Iterator[Dataset]:
    """Yield neighbouring blocks as datasets: so many blocks, or bytes, in each."""
    from skate.data.dataset import MaterializedDataset

    window: list[Bundle] = []
    for bundle in bundles:
        full = len(window) == blocks or (size and sum(b.size for b in window) + bundle.size > size)
        if window and full:
            yield MaterializedDataset(plan.Input(tuple(window)))
            window = []
        window.append(bundle)
    if window:
        yield MaterializedDataset(plan.Input(tuple(window)))
