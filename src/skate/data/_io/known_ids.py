"""Rows left out by their ids, of which there may be many more than rows in a block.

The ids are put into the object store once, in the order of numbers that are made of them. A block
looks its own numbers up there, and compares with the few ids that have these.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

import skate
from skate.data._arrow.blocks import Block, check_columns
from skate.data._arrow.compute import pc
from skate.data._arrow.hashing import numbers_of
from skate.data._arrow.sorting import taken

if TYPE_CHECKING:
    from skate._core.arrays import Array

_NUMBER, _ID = "number", "id"


@dataclass(frozen=True)
class WithoutIds:
    """Leaves out rows whose ids are known; `known` has those ids behind their numbers."""

    column: str
    type: pa.DataType
    known: skate.ObjectRef[Block]

    def __call__(self, blocks: Iterator[Block]) -> Iterator[Block]:
        known = skate.get(self.known)
        for block in blocks:
            yield block.filter(pc.invert(self._are_in(known, block))) if block.num_rows else block

    def _are_in(self, known: Block, block: Block) -> pa.ChunkedArray:
        check_columns([self.column], block.column_names)
        ids = block[self.column]
        try:
            ids = ids.cast(self.type)
        except pa.ArrowInvalid as error:
            raise TypeError(
                f"column {self.column!r} has ids of type {ids.type}, and those that were written "
                f"are {self.type}: give them the same type, or another checkpoint_path"
            ) from error
        return pc.is_in(ids, value_set=alike(known, ids))


def without_ids(column: str, ids: pa.ChunkedArray) -> WithoutIds:
    """Return a step that leaves out rows with these ids."""
    return WithoutIds(column, ids.type, skate.put(by_number(ids)))


def by_number(ids: pa.ChunkedArray) -> Block:
    """Return ids in the order of their numbers, with these."""
    numbers = numbers_of(ids)
    order = np.argsort(numbers)
    ordered = taken(pa.table({_ID: ids}), order)
    return ordered.append_column(_NUMBER, pa.array(numbers[order])).combine_chunks()


def alike(known: Block, ids: pa.ChunkedArray) -> pa.Array:
    """Return those of the known ids whose number one of these has, too."""
    numbers, wanted = known[_NUMBER].to_numpy(), np.unique(numbers_of(ids))
    starts = np.searchsorted(numbers, wanted, side="left")
    stops = np.searchsorted(numbers, wanted, side="right")
    return known[_ID].take(pa.array(_ranges(starts, stops))).combine_chunks()


def _ranges(starts: Array, stops: Array) -> Array:
    """Return all places between starts and stops."""
    counts = stops - starts
    before = np.cumsum(counts) - counts  # places in the ranges before each
    places: Array = np.arange(counts.sum()) + np.repeat(starts - before, counts)
    return places
