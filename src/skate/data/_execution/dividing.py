"""How the rows of an exchange by partitions are divided: by ranges or hashes of their keys, by
their place, or at random. The same table is divided alike each time: a task may be repeated after
some of its pieces are used."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import Block, concat
from skate.data._arrow.hashing import hashed
from skate.data._arrow.sorting import Keys, sort_table, sorted_indices, taken

if TYPE_CHECKING:
    from skate._core.arrays import Array


PLACE = "\x1fplace"  # of a row among all of its input
_MOST_DRAWN = 10**9  # rows, from which NumPy draws no hypergeometric numbers


class Division(ABC):
    """Divides a table among `parts`."""

    parts: range

    @abstractmethod
    def pieces(self, table: Block) -> Iterator[Block]:
        """Return the rows of each part, in order."""


@dataclass(frozen=True)
class ByRange(Division):
    """Rows between two boundaries make a part. A row that equals a boundary comes after it, or
    before it if `is_after`. Rows are in the order of the keys, of which the last may be their
    PLACE, if the first has the place `start`."""

    parts: range
    keys: Keys
    boundaries: Block
    is_after: bool = False
    start: int = 0

    def pieces(self, table: Block) -> Iterator[Block]:
        own = table.select([name for name, _ in self.keys if name != PLACE])
        if len(own.column_names) < len(self.keys):
            own = with_places(own, np.arange(self.start, self.start + table.num_rows))
        order = [own, self.boundaries] if self.is_after else [self.boundaries, own]
        places = sorted_indices(concat(order), self.keys).to_numpy()
        limits, rows = self.boundaries.num_rows, table.num_rows
        first = rows if self.is_after else 0
        is_boundary = (places >= first) & (places < first + limits)
        ends = np.flatnonzero(is_boundary) - np.arange(limits)
        ordered = taken(table, places[~is_boundary] - (0 if self.is_after else limits))
        return _cut(ordered, [0, *ends, rows])


def with_places(keys: Block, places: Array) -> Block:
    return keys.append_column(PLACE, pa.array(places, pa.int64()))


def boundaries_of(sample: Block, keys: Keys, parts: int) -> Block:
    """Return rows that divide others of which this is a sample about evenly."""
    ordered = sort_table(sample, keys)
    places = [ordered.num_rows * number // parts for number in range(1, parts)]
    return ordered.take(pa.array(places, pa.int64()))


@dataclass(frozen=True)
class ByHash(Division):
    """Rows with equal keys come into one part, whatever the types of the keys."""

    parts: range
    keys: tuple[str, ...]

    def pieces(self, table: Block) -> Iterator[Block]:
        numbers = hashed(table, self.keys, len(self.parts)).astype(np.int64)
        ends = np.cumsum(np.bincount(numbers, minlength=len(self.parts)))
        return _cut(taken(table, np.argsort(numbers, kind="stable")), [0, *ends])


@dataclass(frozen=True)
class Undivided(Division):
    """All rows are one part."""

    parts: range = range(1)

    def pieces(self, table: Block) -> Iterator[Block]:
        yield table


@dataclass(frozen=True)
class ByPlace(Division):
    """The first rows are the first part, and so on."""

    parts: range
    counts: tuple[int, ...]

    def pieces(self, table: Block) -> Iterator[Block]:
        return _cut(table, [0, *np.cumsum(self.counts)])


def by_place(rows: Sequence[int], ends: Sequence[int]) -> list[ByPlace]:
    """Return how tables of so many rows are divided, if parts end at these places of all."""
    starts = np.cumsum([0, *rows])
    made = []
    for start, stop in pairwise(starts):
        first = int(np.searchsorted(ends, start, side="right"))
        last = int(np.searchsorted(ends, stop, side="left")) + 1
        inner = [int(end) - start for end in ends[first : last - 1]]
        counts = np.diff([0, *inner, stop - start])
        made.append(ByPlace(range(first, last), tuple(map(int, counts))))
    return made


@dataclass(frozen=True)
class AtRandom(Division):
    """So many rows for each part, drawn by a generator of this task's own."""

    parts: range
    counts: tuple[int, ...]
    seed: tuple[int, ...]

    def pieces(self, table: Block) -> Iterator[Block]:
        order = np.random.default_rng(self.seed).permutation(table.num_rows)
        return _cut(taken(table, order), [0, *np.cumsum(self.counts)])


def at_random(rows: Sequence[int], sizes: Sequence[int], seed: int) -> list[AtRandom]:
    """Return how tables of so many rows are divided among parts of these sizes, so that each way
    to do so is as likely as any other."""
    random = np.random.default_rng([seed, 0])
    left = np.array(sizes, np.int64)
    made = []
    for number, count in enumerate(rows):
        drawn = _drawn(random, left, count)
        left -= drawn
        counts = tuple(map(int, drawn))
        made.append(AtRandom(range(len(sizes)), counts, (seed, 1, number)))
    return made


def _drawn(random: np.random.Generator, left: Array, count: int) -> Array:
    """Draw how many of `count` rows go to each part, by the rows that it still lacks."""
    total = int(left.sum())
    if total < _MOST_DRAWN:
        return random.multivariate_hypergeometric(left, count, method="marginals")
    drawn = np.zeros_like(left)
    for part, lacking in enumerate(left):  # of so many rows, drawing with replacement is as good
        total -= int(lacking)
        share = lacking / (total + lacking) if lacking else 0.0
        wanted = int(random.binomial(count, share))
        drawn[part] = min(max(wanted, count - total), lacking, count)
        count -= int(drawn[part])
    return drawn


def _cut(table: Block, ends: Sequence[int]) -> Iterator[Block]:
    for start, stop in pairwise(ends):
        yield table.slice(int(start), int(stop) - int(start))
