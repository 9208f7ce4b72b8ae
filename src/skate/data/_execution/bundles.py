"""Blocks on their way between stages: here, or elsewhere as a reference."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import skate
from skate._facade.api import get_own
from skate.data._arrow.blocks import Block, compact, concat, mark_own

if TYPE_CHECKING:
    from skate.data._execution.units import PartOfUnit


class Bundle(NamedTuple):
    """A block, in this process or in the object store, and what is known without looking."""

    block: Block | None
    ref: skate.ObjectRef[Any] | None
    rows: int
    size: int
    place: PartOfUnit | None = None  # where it belongs, in an execution by units
    start: int | None = None  # the task of the source whose rows begin with it, if that is known

    def get(self) -> Block:
        if self.block is not None:
            return self.block
        assert self.ref is not None
        return skate.get(self.ref)

    def own(self) -> Block:
        """Fetch the block, marked as the caller's own if it comes from the object store: its
        numbers may be written to. Of one that is in this process others may have views."""
        if self.block is not None:
            return self.block
        assert self.ref is not None
        return mark_own(get_own(self.ref))

    def payload(self) -> object:
        """Return what a task is given for the bundle: its reference, or the block without spare
        memory."""
        return self.ref if self.block is None else compact(self.block)

    def payloads(self) -> list[object]:
        """Return the arguments of a task that works on the bundle."""
        return [self.payload()]

    def stored(self) -> Bundle:
        """Put the block into the object store, which spills to disk when memory is short."""
        if self.block is None:
            return self
        kept = compact(self.block)
        return Bundle(None, skate.put(kept), self.rows, kept.nbytes)

    def slice(self, start: int, length: int) -> Bundle:
        if start == 0 and length >= self.rows:
            return self
        return bundle_of(self.get().slice(start, length))


def bundle_of(block: Block) -> Bundle:
    return Bundle(block, None, block.num_rows, block.nbytes)


def even_bundles(block: Block, count: int) -> Iterator[Bundle]:
    """Cut the block into bundles of about equal length, in order, without copying."""
    rows = block.num_rows
    count = max(1, min(count, rows))
    starts = [rows * number // count for number in range(count + 1)]
    for start, stop in pairwise(starts):
        yield bundle_of(block.slice(start, stop - start))


def table_of(bundles: Iterable[Bundle]) -> Block:
    """Fetch the blocks of all bundles and join them into one."""
    return concat(_values(list(bundles)))


def _values(bundles: Sequence[Bundle]) -> list[Block]:
    """Fetch the blocks, with one request for all that are elsewhere."""
    refs = [bundle.ref for bundle in bundles if bundle.ref is not None and bundle.block is None]
    fetched = iter(skate.get(refs)) if refs else iter(())
    return [next(fetched) if b.block is None else b.block for b in bundles]


class BundleBuffer:
    """Bundles that wait for the rest. Above `limit` bytes those in this process move to the
    object store."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.bundles: list[Bundle] = []
        self.size = 0
        self._here = 0

    def add(self, bundle: Bundle) -> None:
        if bundle.block is not None:
            self._here += bundle.size
            if self._here > self.limit:
                bundle = bundle.stored()
                self._here -= bundle.size
        self.bundles.append(bundle)
        self.size += bundle.size

    def drain(self) -> Iterator[Bundle]:
        """Yield the bundles in order, and let each go before the next."""
        self.bundles.reverse()
        while self.bundles:
            yield self.bundles.pop()

    def empty(self) -> Block:
        """Make a block without rows that has the columns of those that are here."""
        bundle = next((b for b in self.bundles if b.rows), None)
        bundle = bundle or next(iter(self.bundles), None)
        return concat([]) if bundle is None else bundle.get().schema.empty_table()

    @property
    def rows(self) -> int:
        return sum(bundle.rows for bundle in self.bundles)
