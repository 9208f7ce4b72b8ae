"""Operations that look at all rows: union, zip, repartition, sort, shuffle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import Block, concat
from skate.data._arrow.sorting import check_keys, sort_table, taken
from skate.data._execution.bundles import Bundle, BundleBuffer, bundle_of, even_bundles, table_of
from skate.data._execution.dividing import PLACE, ByRange, at_random, boundaries_of, by_place
from skate.data._execution.partitions import Divisions, Gathering, Side, Streams, collect
from skate.data._plan import nodes as plan
from skate.data._plan.seeds import Seed, generators, seed_of_one_run
from skate.data._settings.context import DataContext


@dataclass(frozen=True, eq=False)
class Union(plan.Exchange):
    """The rows of one after those of the other."""

    def initial_num_blocks(self) -> int | None:
        counts = [each.initial_num_blocks() for each in self.inputs]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return chain.from_iterable(streams)


@dataclass(frozen=True, eq=False)
class RandomizeBlocks(plan.Exchange):
    """The blocks in another order."""

    seed: Seed = None

    @property
    def name(self) -> str:
        return "RandomizeBlockOrder"

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        bundles = collect(streams[0], context.sort_memory_bytes).bundles
        random = np.random.default_rng(seed_of_one_run(self.seed))
        for number in random.permutation(len(bundles)):
            yield bundles[number]


@dataclass(frozen=True, eq=False)
class Sample(plan.Exchange):
    """Each row with a probability."""

    fraction: float = 1.0
    seed: Seed = None

    @property
    def name(self) -> str:
        return f"RandomSample[{self.fraction}]"

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        generator_of = generators(self.seed)
        for number, bundle in enumerate(streams[0]):
            keep = generator_of(number).random(bundle.rows) < self.fraction
            yield bundle_of(bundle.get().filter(pa.array(keep)))


@dataclass(frozen=True, eq=False)
class Zip(plan.Exchange):
    """Rows of several datasets side by side; a name that is taken gets a number."""

    def schema_of(self, inputs: Sequence[pa.Schema]) -> pa.Schema:
        return beside([schema.empty_table() for schema in inputs]).schema

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return self._zipped(streams)

    def _zipped(self, streams: Streams) -> Iterator[Bundle]:
        heads: list[Block | None] = [None] * len(streams)
        totals = [0] * len(streams)
        while True:
            heads = list(map(_next_block, streams, heads))
            blocks = [head for head in heads if head is not None]
            rows = min(block.num_rows for block in blocks) if len(blocks) == len(heads) else 0
            if not rows:
                break
            totals = [total + rows for total in totals]
            yield bundle_of(beside([block.slice(0, rows) for block in blocks]))
            heads = [block.slice(rows) for block in blocks]
        self._check_ends(streams, heads, totals)
        if not any(totals) and len(blocks) == len(heads):
            yield bundle_of(beside(blocks))  # without rows: what is above looks for the columns

    def _check_ends(
        self, streams: Streams, heads: Sequence[Block | None], totals: list[int]
    ) -> None:
        if not any(head is not None and head.num_rows for head in heads):
            return
        for number, stream in enumerate(streams):
            head = heads[number]
            totals[number] += head.num_rows if head is not None else 0
            totals[number] += sum(bundle.rows for bundle in stream)
        raise ValueError(
            f"Cannot zip datasets of different number of rows: {', '.join(map(str, totals))}; "
            f"cut them with limit({min(totals)}), or join() them by a column"
        )


def _next_block(stream: Iterator[Bundle], head: Block | None) -> Block | None:
    """Return `head` while it has rows, then the next block that has some; one without rows where
    no other follows, and None if there is none at all."""
    while head is None or not head.num_rows:
        bundle = next(stream, None)
        if bundle is None:
            return head
        head = bundle.get()
    return head


def beside(blocks: Sequence[Block]) -> Block:
    """Put the columns of all blocks side by side into one; names that are taken get a number."""
    table = blocks[0].replace_schema_metadata(None)
    for block in blocks[1:]:
        for name, column in zip(block.column_names, block.columns, strict=True):
            table = table.append_column(_free_name(name, table.column_names), column)
    return table


def _free_name(name: str, taken: Sequence[str]) -> str:
    number, free = 0, name
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free


@dataclass(frozen=True, eq=False)
class RowsPerBlock(plan.Exchange):
    """The same rows in the same order, in blocks of so many rows."""

    rows: int = 1

    @property
    def name(self) -> str:
        return "Repartition"

    def initial_num_blocks(self) -> int | None:
        return None

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return rows_at_a_time(streams[0], self.rows)


@dataclass(frozen=True, eq=False)
class Repartition(Gathering):
    """The same rows in the same order, in `blocks` blocks."""

    blocks: int = 1

    def initial_num_blocks(self) -> int | None:
        return self.blocks

    @property
    def keeps_empty_blocks(self) -> bool:
        return True

    def in_memory(self, inputs: Sequence[BundleBuffer]) -> Iterator[Bundle]:
        (buffer,) = inputs
        return evenly(iter(buffer.bundles), buffer.rows, self.blocks, buffer.empty())

    def divisions(self, sides: Sequence[Side], parts: int) -> Divisions:
        rows = sides[0].rows
        ends = _ends(sum(rows), self.blocks)[1:]
        return Divisions([by_place(rows, ends)], [1] * self.blocks)

    def of_tables(self, tables: Sequence[Block], part: int = 0) -> Block:
        return tables[0]


def evenly(bundles: Iterator[Bundle], rows: int, blocks: int, empty: Block) -> Iterator[Bundle]:
    """Divide the rows into so many bundles of about equal length; without rows, a bundle is
    `empty`."""
    rest = next(bundles, None)
    for start, stop in pairwise(_ends(rows, blocks)):
        parts: list[Bundle] = []
        missing = stop - start
        while missing > 0 and rest is not None:
            part = rest.slice(0, missing)
            rest = rest.slice(part.rows, rest.rows) if rest.rows > part.rows else None
            rest = rest if rest is not None else next(bundles, None)
            if part.rows:
                parts.append(part)
                missing -= part.rows
        yield parts[0] if len(parts) == 1 else bundle_of(table_of(parts) if parts else empty)


def _ends(rows: int, blocks: int) -> list[int]:
    """Compute where blocks of about equal length end; of too many, the last ones are empty."""
    if rows < blocks:
        return [min(number, rows) for number in range(blocks + 1)]
    return [rows * number // blocks for number in range(blocks + 1)]


def rows_at_a_time(bundles: Iterator[Bundle], size: int) -> Iterator[Bundle]:
    rest: list[Block] = []
    rows = 0
    for bundle in bundles:
        rest.append(bundle.get())
        rows += bundle.rows
        if rows < size:
            continue
        table = concat(rest)
        whole = rows - rows % size
        for start in range(0, whole, size):
            yield bundle_of(table.slice(start, size))
        rest, rows = ([table.slice(whole)], rows - whole) if rows > whole else ([], 0)
    if rows:
        yield bundle_of(concat(rest))


@dataclass(frozen=True, eq=False)
class Shuffle(Gathering):
    """All rows in random order."""

    seed: Seed = None
    blocks: int | None = None

    @property
    def name(self) -> str:
        return "RandomShuffle"

    def initial_num_blocks(self) -> int | None:
        return self.blocks or super().initial_num_blocks()

    def in_memory(self, inputs: Sequence[BundleBuffer]) -> Iterator[Bundle]:
        (buffer,) = inputs
        rows, blocks = buffer.rows, len(buffer.bundles)
        mixed = self.of_tables([table_of(buffer.bundles)])
        nothing = mixed.slice(0, 0)
        return evenly(iter([bundle_of(mixed)]), rows, self._blocks(rows, blocks), nothing)

    @property
    def keeps_empty_blocks(self) -> bool:
        return self.blocks is not None

    def _blocks(self, rows: int, before: int) -> int:
        return max(1, min(before, rows)) if self.blocks is None else self.blocks

    def repeatable(self) -> Shuffle:
        return replace(self, seed=seed_of_one_run(self.seed))

    def divisions(self, sides: Sequence[Side], parts: int) -> Divisions:
        (side,) = sides
        assert isinstance(self.seed, int)  # see `repeatable`
        rows = sum(side.rows)
        blocks = self._blocks(rows, side.blocks)
        parts = min(parts, blocks) if self.blocks is None else blocks
        ends = [blocks * number // parts for number in range(parts + 1)]
        places = _ends(rows, blocks)
        sizes = np.diff([places[end] for end in ends]).tolist()
        return Divisions([at_random(side.rows, sizes, self.seed)], np.diff(ends).tolist())

    def of_tables(self, tables: Sequence[Block], part: int = -1) -> Block:
        seed: Any = self.seed if part < 0 else [self.seed, 2, part]
        random = np.random.default_rng(seed)
        return taken(tables[0], random.permutation(tables[0].num_rows))


@dataclass(frozen=True, eq=False)
class Sort(Gathering):
    """By one or more columns; None comes last. Rows that are equal keep their order."""

    keys: tuple[tuple[str, str], ...] = ()
    boundaries: tuple[Any, ...] | None = None

    @property
    def sampled(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.keys)

    @property
    def keeps_empty_blocks(self) -> bool:
        return self.boundaries is not None

    def in_memory(self, inputs: Sequence[BundleBuffer]) -> Iterator[Bundle]:
        (buffer,) = inputs
        if not buffer.bundles:
            return
        table = table_of(buffer.bundles)
        if self.boundaries is None:
            yield from even_bundles(self.of_tables([table]), len(buffer.bundles))
            return
        check_keys(self.sampled, table)
        for piece in self._at_boundaries().pieces(table):
            yield bundle_of(self.of_tables([piece]))

    def _at_boundaries(self) -> ByRange:
        """Return the division by the first key whose parts begin with the values given."""
        assert self.boundaries is not None
        column, direction = self.keys[0]
        given = pa.table({column: pa.array(self.boundaries)})
        parts = range(given.num_rows + 1)
        return ByRange(parts, self.keys[:1], given, is_after=direction == "descending")

    def divisions(self, sides: Sequence[Side], parts: int) -> Divisions:
        (side,) = sides
        if self.boundaries is not None:
            division = self._at_boundaries()
            return Divisions([[division] * len(side.groups)], [1] * len(division.parts))
        return by_ranges(side, self.keys, parts, -(-side.blocks // parts), may_part_equals=True)

    def of_tables(self, tables: Sequence[Block], part: int = 0) -> Block:
        return sort_table(tables[0], self.keys)

    def finished(self, tables: Sequence[Block], part: int) -> Block:
        return by_engine(self, tables)


def by_ranges(
    side: Side,
    keys: Sequence[tuple[str, str]],
    parts: int,
    blocks: int,
    may_part_equals: bool = False,
) -> Divisions:
    """Return how rows are divided by their keys, about evenly and in order; if many are equal and
    may come into several parts, by their places, too."""
    assert side.keys is not None
    boundaries = boundaries_of(side.keys, keys, parts).drop_columns([PLACE])
    if may_part_equals and len(set(map(repr, boundaries.to_pylist()))) < len(boundaries):
        keys = [*keys, (PLACE, "ascending")]
        boundaries = boundaries_of(side.keys, keys, parts)
    divisions = [ByRange(range(parts), keys, boundaries, start=start) for start in side.starts]
    return Divisions([divisions], [blocks] * parts)


def by_engine(node: Gathering, tables: Sequence[Block]) -> Block:
    """Return the result for tables; by Polars, if they are not too small for that."""
    from skate.data._relational.runs import answer_of_tables  # which knows this operation

    return answer_of_tables(node, tables)
