"""What can be read as a stream of blocks: its rows and batches, and where an iteration is."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypedDict, overload

from skate.data._api.bad_texts import naming_files, with_files
from skate.data._api.epochs import Batches, Epochs, StatefulEpochs
from skate.data._arrow.blocks import (
    Batch,
    Block,
    Row,
    check_columns,
    check_format,
    detached,
    rows_of,
)
from skate.data._arrow.schema import Schema
from skate.data._arrow.undecodable import UndecodableTextError
from skate.data._execution.batching import batches
from skate.data._execution.bundles import bundle_of
from skate.data._execution.positions import BlockCursor, LocalShuffle
from skate.data._execution.prefetching import prefetched
from skate.data._settings.context import DataContext

if TYPE_CHECKING:
    import numpy as np
    import pandas
    from typing_extensions import Unpack

    from skate.data._execution.positions import State

    class BatchKeywords(TypedDict, total=False):
        """What all batches have; see `iter_batches`."""

        prefetch_batches: int
        prefetch_blocks: int
        batch_size: int | None
        drop_last: bool
        local_shuffle_buffer_size: int | None
        local_shuffle_seed: int | None


class RowsAndBatches(ABC):
    """What can be read as a stream of blocks can be read as rows and batches."""

    @abstractmethod
    def _blocks(self) -> Iterator[Block]:
        """Yield all blocks, once, from the beginning."""

    def _blocks_ahead(self) -> Iterator[Block]:
        """Yield the same for callers that may rest: where others compute them, they go on
        meanwhile."""
        return self._blocks()

    @abstractmethod
    def schema(self) -> Schema | None:
        """Return the names and types of the columns; None if there is no row to see them from."""

    def _settings(self) -> DataContext:
        """Return the settings that its executions obey."""
        return DataContext.get_current()

    def _shows_kept_blocks(self) -> bool:
        """Return whether somebody may look at the same blocks again."""
        return False

    def _repeatable(self) -> bool:
        """Return whether all iterations, in whatever process, give the same rows in the same
        order."""
        return False

    def _keeps_order(self) -> bool:
        """Return whether all iterations of this process give the same rows in the same order."""
        return False

    # -- going on where an iteration was --------------------------------------------------------

    def _resumable(self) -> bool:
        """Return whether another run can go on where an iteration was."""
        return False

    def _cursor(self, start: Mapping[str, object] | None = None) -> BlockCursor:
        """Return a cursor over the blocks from a position on."""
        return BlockCursor(map(bundle_of, self._blocks()), start)

    def _about_state(self) -> dict[str, object]:
        """Return what states say besides the position."""
        return {}

    def _next_epoch(self) -> dict[str, object]:
        """Return what a state between two epochs says."""
        return {}

    def _set_epoch(self, state: Mapping[str, object]) -> None:  # noqa: B027
        """Let the next iteration be the epoch that the state is of, where epochs differ."""

    def _start_of(self, states: Any) -> State:
        """Return the position that a state, or those of all parts, is of."""
        return dict(states if isinstance(states, Mapping) else states[0])

    def iter_rows(self, *, prefetch_blocks: int = 0) -> Iterable[Row]:
        """Iterate over the rows, one by one.

        Args:
            prefetch_blocks: As in `iter_batches`.

        Returns:
            The rows; each iteration over them runs the plan again.

        Example:
            >>> [row["id"] for row in skate.data.range(3).iter_rows()]
            [0, 1, 2]
        """
        return Epochs(self._rows)

    def _rows(self) -> Iterator[Row]:
        plain = self._settings().has_plain_rows()
        blocks = self._blocks_ahead()
        if self._shows_kept_blocks():
            blocks = map(detached, blocks)
        # Rows that have lost all their columns are counted, but there is nothing to hand out.
        return (
            row for block in blocks if block.num_columns for row in self._rows_in(block, plain)
        )

    def _rows_in(self, block: Block, plain: bool) -> Iterator[Row]:
        try:
            return rows_of(block, plain)
        except UndecodableTextError as error:
            raise with_files(error, self) from error.__cause__

    @overload
    def iter_batches(
        self,
        *,
        batch_format: Literal["default", "numpy"] = ...,
        **options: Unpack[BatchKeywords],
    ) -> StatefulEpochs[dict[str, np.ndarray[Any, Any]]]: ...
    @overload
    def iter_batches(
        self, *, batch_format: Literal["pandas"], **options: Unpack[BatchKeywords]
    ) -> StatefulEpochs[pandas.DataFrame]: ...
    @overload
    def iter_batches(
        self,
        *,
        batch_format: str | None = ...,
        _collate_fn: Callable[[Batch], object] | None = ...,
        _columns: Sequence[str] | None = ...,
        **options: Unpack[BatchKeywords],
    ) -> StatefulEpochs[Any]: ...
    def iter_batches(
        self,
        *,
        prefetch_batches: int = 1,
        prefetch_blocks: int = 0,
        batch_size: int | None = 256,
        batch_format: str | None = "default",
        drop_last: bool = False,
        local_shuffle_buffer_size: int | None = None,
        local_shuffle_seed: int | None = None,
        _collate_fn: Callable[[Batch], object] | None = None,
        _columns: Sequence[str] | None = None,
    ) -> StatefulEpochs[Any]:
        """Iterate over the rows in batches.

        Args:
            prefetch_batches: How many batches are converted ahead, in a thread if above 1.
            prefetch_blocks: Without effect, as in Ray since 2.5: blocks are computed ahead in any
                case.
            batch_size: Rows of a batch; None gives blocks as they come.
            batch_format: "numpy" (the default: a dictionary of arrays), "pandas" or "pyarrow".
            drop_last: Whether a last batch with fewer rows is left out.
            local_shuffle_buffer_size: Rows among which the next are chosen at random; None keeps
                the order.
            local_shuffle_seed: Makes that choice the same every time.
            _collate_fn: What is done to each batch.
            _columns: Those that are wanted; None is all.

        Returns:
            The batches; each iteration over them runs the plan again. Their `state_dict()` says
            where the last one is, and `load_state_dict()` goes on there.

        Example:
            >>> for batch in skate.data.range(3).iter_batches(batch_size=2):
            ...     print(batch["id"])
            [0 1]
            [2]
        """
        format_ = check_format(batch_format)

        def make(blocks: Iterator[Block], shuffle: LocalShuffle | None) -> Iterator[Any]:
            found = batches(
                _selected(blocks, _columns), batch_size, format_, drop_last, shuffle,
                self._shows_kept_blocks(),
            )  # fmt: skip
            if _collate_fn is not None:
                found = map(_collate_fn, found)
            converted = ahead(found, prefetch_batches, _collate_fn is not None)
            return naming_files(converted, self)

        return Batches(self, make, batch_size, local_shuffle_buffer_size, local_shuffle_seed)


def _selected(blocks: Iterator[Block], columns: Sequence[str] | None) -> Iterator[Block]:
    """Select these columns of the blocks; None: all."""

    def select(block: Block) -> Block:
        check_columns(wanted, block.column_names)
        return block.select(wanted)

    wanted = columns or ()
    return blocks if columns is None else map(select, blocks)


def ahead(items: Iterator[object], prefetch: int, costly: bool) -> Iterator[Any]:
    if prefetch < 0:
        raise ValueError(f"prefetch_batches takes a number of at least 0; got {prefetch}")
    return prefetched(items, prefetch) if prefetch > 1 or (prefetch and costly) else items
