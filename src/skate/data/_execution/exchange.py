"""Operations that look at all rows: union, zip, repartition, sort, shuffle.

Up to `DataContext.sort_memory_bytes` they work on one table in memory. Beyond, rows are first
dealt out to partitions, kept in the object store (which spills), and then done one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from skate.data._arrow.blocks import Block, check_columns, compact, concat
from skate.data._arrow.dictionaries import without_dictionary
from skate.data._arrow.tensors import type_text
from skate.data._execution.bundles import Bundle, Hoard, bundle_of, even_bundles, table_of
from skate.data._plan import nodes as plan
from skate.data._plan.seeds import Seed, generators
from skate.data._settings.context import DataContext

Streams = list[Iterator[Bundle]]


def collect(stream: Iterator[Bundle], context: DataContext) -> Hoard:
    hoard = Hoard(context.sort_memory_bytes)
    for bundle in stream:
        hoard.add(bundle)
    return hoard


def partitions_for(hoard: Hoard) -> int:
    """How many partitions make each fit into memory, with some room."""
    return int(2 * hoard.size // hoard.limit) + 2


def dealt(
    hoard: Hoard, assign: Callable[[Block, int], Any], count: int | None = None
) -> Iterator[Block]:
    """The rows by partitions that fit into memory, in order; some may be empty. All have the
    columns and types that the rows would have in one table. `assign(block, partitions)` gives
    each row's partition."""
    count = count or partitions_for(hoard)
    nothing = hoard.empty()
    parts: list[list[Bundle]] = [[] for _ in range(count)]
    samples: dict[pa.Schema, Block] = {}  # a row for each schema: they decide on the types
    for bundle in hoard.drain():
        if not bundle.rows:
            continue
        block = bundle.get()
        if block.schema not in samples:
            samples[block.schema] = compact(block.slice(0, 1))
        for part, piece in enumerate(_divided(block, assign(block, count), count)):
            if piece.num_rows:
                parts[part].append(bundle_of(piece).stored())
    for number in range(count):
        pieces, parts[number] = parts[number], []
        together = concat([*samples.values(), table_of(pieces)])
        yield together.slice(len(samples)) if samples else nothing


def _divided(block: Block, numbers: Any, count: int) -> Iterator[Block]:
    """The rows of each number, in order."""
    order = np.argsort(np.asarray(numbers), kind="stable")
    ends = np.searchsorted(np.asarray(numbers)[order], np.arange(count + 1))
    ordered = block.take(pa.array(order))
    for start, stop in pairwise(ends):
        yield ordered.slice(start, stop - start)


def check_keys(keys: Sequence[str], block: Block) -> None:
    """Raise for keys that are no columns; an empty block without any could have them."""
    if block.num_columns or block.num_rows:
        check_columns(keys, block.column_names)


@dataclass(frozen=True, eq=False)
class Union(plan.Exchange):
    """The rows of one after those of the other."""

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return chain.from_iterable(streams)


@dataclass(frozen=True, eq=False)
class RandomizeBlocks(plan.Exchange):
    """The blocks in another order."""

    seed: int | None = None

    @property
    def name(self) -> str:
        return "RandomizeBlockOrder"

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        bundles = collect(streams[0], context).bundles
        for number in np.random.default_rng(self.seed).permutation(len(bundles)):
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

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return self._zipped(streams)

    def _zipped(self, streams: Streams) -> Iterator[Bundle]:
        heads: list[Block | None] = [None] * len(streams)
        totals = [0] * len(streams)
        while True:
            for number, stream in enumerate(streams):
                head = heads[number]
                if head is None or head.num_rows == 0:
                    heads[number] = _next_block(stream)
            blocks = [head for head in heads if head is not None]
            if len(blocks) < len(streams):
                break
            rows = min(block.num_rows for block in blocks)
            totals = [total + rows for total in totals]
            yield bundle_of(beside([block.slice(0, rows) for block in blocks]))
            heads = [block.slice(rows) for block in blocks]
        self._check_ends(streams, heads, totals)

    def _check_ends(
        self, streams: Streams, heads: Sequence[Block | None], totals: list[int]
    ) -> None:
        if all(head is None for head in heads):
            return
        for number, stream in enumerate(streams):
            head = heads[number]
            totals[number] += head.num_rows if head is not None else 0
            totals[number] += sum(bundle.rows for bundle in stream)
        raise ValueError(
            f"cannot zip datasets of different number of rows: {', '.join(map(str, totals))}; "
            f"cut them with limit({min(totals)}), or join() them by a column"
        )


def _next_block(stream: Iterator[Bundle]) -> Block | None:
    for bundle in stream:
        if bundle.rows:
            return bundle.get()
    return None


def beside(blocks: Sequence[Block]) -> Block:
    """Columns of all blocks in one."""
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
class Repartition(plan.Exchange):
    """The same rows in the same order, in `blocks` blocks or in blocks of `rows_per_block`."""

    blocks: int | None = None
    rows_per_block: int | None = None

    def initial_num_blocks(self) -> int | None:
        return self.blocks

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        if self.rows_per_block is not None:
            return rows_at_a_time(streams[0], self.rows_per_block)
        hoard = collect(streams[0], context)
        assert self.blocks is not None
        return evenly(iter(hoard.bundles), hoard.rows, self.blocks, hoard.empty())


def evenly(bundles: Iterator[Bundle], rows: int, blocks: int, empty: Block) -> Iterator[Bundle]:
    """The rows in so many bundles of about equal length; without rows, a bundle is `empty`."""
    ends = [rows * number // blocks for number in range(blocks + 1)]
    rest = next(bundles, None)
    for start, stop in pairwise(ends):
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
class Shuffle(plan.Exchange):
    """All rows in random order."""

    seed: int | None = None
    blocks: int | None = None

    @property
    def name(self) -> str:
        return "RandomShuffle"

    def initial_num_blocks(self) -> int | None:
        return self.blocks or super().initial_num_blocks()

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return self._shuffled(streams[0], context)

    def _shuffled(self, stream: Iterator[Bundle], context: DataContext) -> Iterator[Bundle]:
        hoard = collect(stream, context)
        rows, empty = hoard.rows, hoard.empty()
        count = max(1, min(self.blocks or len(hoard.bundles), rows))
        random = np.random.default_rng(self.seed)
        if hoard.fits:
            tables = iter([table_of(hoard.bundles)])
        else:
            tables = dealt(hoard, lambda block, n: random.integers(0, n, block.num_rows))
        mixed = (bundle_of(taken(table, random.permutation(table.num_rows))) for table in tables)
        yield from evenly(mixed, rows, count, empty)


def taken(table: Block, order: Any) -> Block:
    """Rows in that order. Arrow takes from one chunk much faster than from many."""
    return table.combine_chunks().take(pa.array(order))


@dataclass(frozen=True, eq=False)
class Sort(plan.Exchange):
    """By one or more columns; None comes last. Rows that are equal keep their order."""

    keys: tuple[tuple[str, str], ...] = ()
    boundaries: tuple[Any, ...] | None = None

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return self._sorted(streams[0], context)

    def _sorted(self, stream: Iterator[Bundle], context: DataContext) -> Iterator[Bundle]:
        hoard = collect(stream, context)
        if not hoard.bundles:
            return
        if hoard.fits:
            table = sort_table(table_of(hoard.bundles), self.keys)
            if self.boundaries is not None:
                yield from self._at_boundaries(table)
            else:
                yield from even_bundles(table, len(hoard.bundles))
            return
        given = self.boundaries is not None
        splits = list(self.boundaries or ()) if given else self._splits(hoard)
        column, direction = self.keys[0]

        def part(block: Block, count: int) -> Any:
            return part_of(block[column], splits, direction, right=given)

        for table in dealt(hoard, part, len(splits) + 1):
            if table.num_rows or given:
                yield from even_bundles(sort_table(table, self.keys), 1 if given else 4)

    def _at_boundaries(self, table: Block) -> Iterator[Bundle]:
        assert self.boundaries is not None
        column, direction = self.keys[0]
        numbers = part_of(table[column], list(self.boundaries), direction, right=True)
        ends = np.searchsorted(numbers, np.arange(len(self.boundaries) + 2))
        for start, stop in pairwise(ends):
            yield bundle_of(table.slice(start, stop - start))

    def _splits(self, hoard: Hoard) -> list[Any]:
        """Values of the first key that divide the rows about evenly."""
        column, _ = self.keys[0]
        random = np.random.default_rng(0)
        samples = []
        for bundle in hoard.bundles:
            if bundle.rows:
                block = bundle.get()
                check_columns([column], block.column_names)
                picks = random.integers(0, block.num_rows, min(block.num_rows, 1000))
                samples.append(block.select([column]).take(pa.array(np.sort(picks))))
        values = concat(samples)[column].combine_chunks()
        values = values.filter(pc.invert(pc.is_null(values, nan_is_null=True)))
        ordered = values.take(pc.sort_indices(values))
        count = partitions_for(hoard)
        places = [len(ordered) * number // count for number in range(1, count)]
        return [ordered[place].as_py() for place in places] if len(ordered) else []


def sort_table(table: Block, keys: Sequence[tuple[str, str]]) -> Block:
    names = [name for name, _ in keys]
    check_keys(names, table)
    if not table.num_rows:
        return table
    try:
        return _sorted_by(table.combine_chunks(), names, keys)
    except (pa.ArrowNotImplementedError, pa.ArrowInvalid, pa.ArrowTypeError):
        kinds = ", ".join(f"{name!r} is {type_text(table[name].type)}" for name in names)
        raise TypeError(
            f"cannot order rows by these columns: {kinds}; numbers, text and dates have an order"
        ) from None


def _sorted_by(table: Block, names: list[str], keys: Sequence[tuple[str, str]]) -> Block:
    if len(keys) == 1:
        column, (_, direction) = table[names[0]], keys[0]
        # One chunk is sorted faster; more than 2 GB of text stay in several.
        column = column.chunk(0) if column.num_chunks == 1 else column
        return table.take(pc.sort_indices(column, sort_keys=[("", direction)]))
    # Arrow sorts by several columns only if none is a dictionary.
    columns = [without_dictionary(table[name]) for name in names]
    return table.take(pc.sort_indices(pa.table(columns, names=names), sort_keys=keys))


def part_of(
    column: Any, splits: Sequence[Any], direction: str = "ascending", right: bool = False
) -> Any:
    """The partition of each row: how many of the splits lie below it. None and NaN go last."""
    numbers = _splits_below(column, splits, right)
    if direction == "descending":
        numbers = len(splits) - numbers
    numbers[pc.is_null(column, nan_is_null=True).to_numpy()] = len(splits)
    return numbers


def _splits_below(column: Any, splits: Sequence[Any], right: bool) -> Any:
    if column.null_count == 0 and pa.types.is_primitive(column.type):
        values, edges = column.to_numpy(), np.sort(np.asarray(splits))
        if values.dtype.kind in "if" and values.dtype.kind == edges.dtype.kind:
            return np.searchsorted(edges, values, side="right" if right else "left")
    numbers = np.zeros(len(column), np.int64)
    for split in splits:
        above = pc.greater_equal(column, split) if right else pc.greater(column, split)
        numbers += pc.fill_null(above, True).to_numpy()
    return numbers
