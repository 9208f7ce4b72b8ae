"""Exchanges by partitions: tasks divide the rows, tasks finish the parts.

    blocks ──► look ──► which columns, some keys ──► driver: where parts begin
    blocks ──► divide ─┬─ piece of part 0 ─┬──► finish part 0 ──► blocks
    blocks ──► divide ─┼─ piece of part 1 ─┼──► finish part 1 ──► blocks
                       └─ …               ─┘

The driver holds references: rows go from one task to another through the object store, which
spills. Finishing is a stage of the executor, so that what comes after the exchange runs in the
same tasks. A task that is lost with its worker or node is repeated by the engine, and so are those
whose pieces were lost with it.
"""

from __future__ import annotations

import sys
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, islice
from math import ceil
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa

import skate
from skate.data._arrow.blocks import Block, compact, concat
from skate.data._arrow.sorting import check_keys
from skate.data._execution.bundles import Bundle, BundleBuffer, even_bundles
from skate.data._execution.dividing import Division, with_places
from skate.data._execution.early_exit import Cancellation
from skate.data._execution.stats import StageStats
from skate.data._plan import nodes as plan
from skate.data._settings.context import MB, DataContext

Streams = list[Iterator[Bundle]]
Ref = skate.ObjectRef[Any]
T = TypeVar("T")

_BYTES_ON_NODES = 1024 * MB  # that the driver of a cluster exchanges by itself
_PART_BYTES = 128 * MB  # of a part or of what one task divides, if that makes no more than
_MOST_PARTS = 400  # parts and dividing tasks: there is a piece for each pair of them
_INLINE_BYTES = 100_000  # of a block that travels with the call
_SAMPLED_KEYS = 100  # for each part


def is_divided(size: int, context: DataContext) -> bool:
    """Return whether rows of so many bytes are exchanged by partitions."""
    if context.partition_min_bytes is not None:
        return size > context.partition_min_bytes
    return size > context.sort_memory_bytes or (size > _BYTES_ON_NODES and has_nodes())


def partition_limit(context: DataContext) -> int:
    """Return how many bytes are exchanged by this process at the most."""
    if context.partition_min_bytes is not None:
        return context.partition_min_bytes
    return min(context.sort_memory_bytes, _BYTES_ON_NODES if has_nodes() else sys.maxsize)


def has_nodes() -> bool:
    """Return whether work can go to other machines."""
    return sum(bool(node.get("Alive", True)) for node in skate.nodes()) > 1


def tasks_at_a_time() -> int:
    """Return how many tasks that ask for no CPU run side by side."""
    limit = DataContext.get_current().execution_options.resource_limits.cpu
    cpus = skate.cluster_resources().get("CPU", 1)
    return max(1, int(min(cpus, limit)))


def collect(stream: Iterator[Bundle], limit: int) -> BundleBuffer:
    """Return all bundles; above so many bytes they are in the object store."""
    buffer = BundleBuffer(limit)
    for bundle in stream:
        buffer.add(bundle)
    return buffer


# -- what an operation says ---------------------------------------------------------------------


class Divisions(NamedTuple):
    """For each input, how each of its tables is divided; and how many blocks each part gives."""

    of_inputs: Sequence[Sequence[Division]]
    blocks: Sequence[int]


@dataclass
class Side:
    """An input: bundles that one task looks at and divides together, and what was seen."""

    groups: list[list[Bundle]]
    blocks: int  # of the input
    columns: Block  # without rows
    samples: list[Block] = field(default_factory=list)  # a row of each schema that occurs
    keys: Block | None = None  # of some rows, and their places

    @property
    def rows(self) -> list[int]:
        return [sum(bundle.rows for bundle in group) for group in self.groups]

    @property
    def starts(self) -> list[int]:
        """The places of the first rows."""
        return [0, *accumulate(self.rows)][:-1]


@dataclass(frozen=True, eq=False)
class Gathering(plan.Exchange):
    """An exchange that sees all rows before it gives the first: in one table, or by partitions."""

    def run(self, streams: Streams, context: DataContext) -> Iterator[Bundle]:
        return self.in_memory([collect(each, context.sort_memory_bytes) for each in streams])

    @abstractmethod
    def in_memory(self, inputs: Sequence[BundleBuffer]) -> Iterator[Bundle]:
        """Return the result for rows that fit into this process."""

    def repeatable(self) -> Gathering:
        """Return the same, with nothing left to chance: tasks that are repeated do the same."""
        return self

    @property
    def sampled(self) -> tuple[str, ...]:
        """Columns of which `divisions` is to know some rows."""
        return ()

    @property
    def keeps_empty_blocks(self) -> bool:
        return False

    @abstractmethod
    def divisions(self, sides: Sequence[Side], parts: int) -> Divisions:
        """Return how rows are divided, into about so many parts."""

    @abstractmethod
    def of_tables(self, tables: Sequence[Block], part: int = 0) -> Block:
        """Return the result for rows that need no others."""

    def finished(self, tables: Sequence[Block], part: int) -> Block:
        """Return the result for a part; by another engine, where one does the same."""
        return self.of_tables(tables, part)

    def cut(self, table: Block, blocks: int) -> Iterator[Bundle]:
        """Return the result of a part in about so many blocks."""
        return even_bundles(table, blocks)


# -- in tasks -----------------------------------------------------------------------------------


def _look(
    keys: Sequence[str], wanted: int, start: int, *blocks: Block
) -> tuple[list[Block], Block | None]:
    """Return a row of each schema, and the keys and places of about so many rows."""
    firsts = [compact(block.slice(0, 1)) for block in _of_each_schema(blocks)]
    if not keys:
        return firsts, None
    table = concat(blocks)
    for name in set(keys) - set(table.column_names):  # other blocks may have it
        table = table.append_column(name, pa.nulls(table.num_rows))
    picks = np.random.default_rng(0).integers(0, table.num_rows, min(table.num_rows, wanted))
    picks.sort()
    some = compact(table.select(list(keys)).take(picks))
    return firsts, with_places(some, picks + start)


def _of_each_schema(blocks: Sequence[Block]) -> list[Block]:
    """Return the first block of each schema; there are types that have no hash."""
    found: list[Block] = []
    for block in blocks:
        if not any(block.schema.equals(other.schema) for other in found):
            found.append(block)
    return found


def _divide(samples: Sequence[Block], division: Division, *blocks: Block) -> list[Any]:
    """Return how many rows go to each part, all bytes and seconds, and then the pieces."""
    start = time.perf_counter()
    pieces = [compact(piece) for piece in division.pieces(_alike(samples, blocks))]
    rows = [piece.num_rows for piece in pieces]
    size = sum(piece.nbytes for piece in pieces)
    return [(rows, size, time.perf_counter() - start), *pieces]


def _alike(samples: Sequence[Block], blocks: Sequence[Block]) -> Block:
    """Return one table, with the columns and types that it would have together with the rest."""
    if len(samples) <= 1:
        return concat(blocks)
    return concat([*samples, *blocks]).slice(len(samples))


class PartShape(NamedTuple):
    """What comes before the pieces: the number of the part, and how many each input has."""

    part: int
    pieces: tuple[int, ...]


@dataclass(frozen=True)
class FinishPart:
    """The first step of a task that finishes a part."""

    node: Gathering
    columns: tuple[Block, ...]
    blocks: tuple[int, ...]

    @property
    def keeps_empty_blocks(self) -> bool:
        return self.node.keeps_empty_blocks

    def __call__(self, payloads: Iterator[Any]) -> Iterator[Block]:
        shape: PartShape = next(payloads)
        tables = []
        for count, columns in zip(shape.pieces, self.columns, strict=True):
            pieces = list(islice(payloads, count))
            tables.append(concat(pieces) if pieces else columns)
        result = self.node.finished(tables, shape.part)
        del tables, pieces
        for bundle in self.node.cut(result, self.blocks[shape.part]):
            yield bundle.get()


# -- in the driver ------------------------------------------------------------------------------


class ExchangePart(NamedTuple):
    """Pieces of each input, as what a stage is given."""

    number: int
    pieces: Sequence[Sequence[Ref]]
    rows: None = None
    start: None = None

    def payloads(self) -> list[Any]:
        shape = PartShape(self.number, tuple(map(len, self.pieces)))
        return [shape, *(piece for pieces in self.pieces for piece in pieces)]


class Partitions:
    """One exchange: `finish` is the step for each of the `parts`."""

    def __init__(
        self, node: Gathering, inputs: Sequence[BundleBuffer], context: DataContext
    ) -> None:
        node = node.repeatable()
        self._name = node.name
        self._window = tasks_at_a_time()
        size = sum(each.size for each in inputs)
        each = max(1, min(_PART_BYTES, context.sort_memory_bytes // 2))
        parts = min(_MOST_PARTS, size // each + 2)
        self._sides = [_side(buffer, max(each, ceil(size / _MOST_PARTS))) for buffer in inputs]
        self._look(node.sampled, parts)
        self._divisions = node.divisions(self._sides, parts)
        columns = tuple(side.columns for side in self._sides)
        bare = replace(node, children=())  # whose plans may hold the rows
        self.finish = FinishPart(bare, columns, tuple(self._divisions.blocks))

    def _look(self, keys: Sequence[str], parts: int) -> None:
        for side in self._sides:
            found = []
            for ref in self._some_at_a_time(_looks(side, keys, _SAMPLED_KEYS * parts, self._name)):
                firsts, some = skate.get(ref)
                side.samples = _of_each_schema([*side.samples, *firsts])
                found += [some] if some is not None else []
            side.keys = concat(found) if found else None
            if side.samples:
                side.columns = concat(side.samples).schema.empty_table()
            check_keys(keys, side.columns)

    def parts(self, stats: StageStats) -> Iterator[ExchangePart]:
        """Divide all rows, then return the parts; what has become of the rows is let go."""
        count = len(self._divisions.blocks)
        pieces: list[list[list[Ref]]] = [[[] for _ in self._sides] for _ in range(count)]
        cancellation = Cancellation.of_consumer()
        for side, parts, refs in self._some_at_a_time(self._divided()):
            if cancellation.declared:
                return
            rows, size, seconds = skate.get(refs[0])
            stats.add(sum(rows), size, seconds)
            for part, number, ref in zip(parts, rows, refs[1:], strict=True):
                if number:
                    pieces[part][side].append(ref)
        pieces.reverse()
        for part in range(count):
            yield ExchangePart(part, pieces.pop())

    def _some_at_a_time(self, submitted: Iterator[T]) -> Iterator[T]:
        """Return what is submitted one after the other, while as many run as there are CPUs."""
        running: deque[T] = deque()
        for each in submitted:
            running.append(each)
            if len(running) > self._window:
                yield running.popleft()
        while running:
            yield running.popleft()

    def _divided(self) -> Iterator[tuple[int, range, list[Ref]]]:
        task: Any = skate.remote(_divide).options(num_cpus=0, name=f"{self._name}[divide]")
        for number, side in enumerate(self._sides):
            side.groups.reverse()
            for division in self._divisions.of_inputs[number]:
                blocks = [bundle.payload() for bundle in side.groups.pop()]
                divide = task.options(num_returns=1 + len(division.parts))
                yield number, division.parts, divide.remote(side.samples, division, *blocks)


def _looks(side: Side, keys: Sequence[str], wanted: int, name: str) -> Iterator[Ref]:
    look = skate.remote(_look).options(num_cpus=0, name=f"{name}[look]")
    rows = side.rows
    total = sum(rows)
    for count, start, group in zip(rows, side.starts, side.groups, strict=True):
        blocks = [bundle.payload() for bundle in group]
        yield look.remote(keys, ceil(wanted * count / total), start, *blocks)


def _side(buffer: BundleBuffer, group_bytes: int) -> Side:
    """Return bundles in groups of about so many bytes; those of this process go to the store."""
    blocks, columns = len(buffer.bundles), buffer.empty() if not buffer.rows else concat([])
    groups: list[list[Bundle]] = []
    size = group_bytes
    for bundle in buffer.drain():
        if not bundle.rows:
            continue
        if size + bundle.size > group_bytes:
            groups.append([])
            size = 0
        groups[-1].append(bundle.stored() if bundle.size > _INLINE_BYTES else bundle)
        size += bundle.size
    return Side(groups, blocks, columns)
