"""Rows dealt out evenly to parts of a split, and what a deal that was cut short has left."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import Block, concat

# Deals one after the other, each of what the one before has left: among how many parts, and how
# many rows some of them took.
Deals = Sequence[tuple[int, Mapping[int, int]]]


class WaitingBlocks:
    """Blocks that wait for the reader of a part, and their bytes."""

    def __init__(self) -> None:
        self._blocks: deque[Block] = deque()
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._blocks)

    def add(self, block: Block) -> None:
        self._blocks.append(block)
        self.nbytes += block.nbytes

    def take(self) -> Block:
        """Remove and return the block that waits for longest."""
        block = self._blocks.popleft()
        self.nbytes -= block.nbytes
        return block

    def clear(self) -> None:
        self._blocks.clear()
        self.nbytes = 0


class EvenDealer:
    """Gives each part the same number of rows of each block; what does not divide waits for the
    next block."""

    def __init__(self, parts: int) -> None:
        self.parts = parts
        self.left: Block | None = None

    def deal(self, block: Block) -> list[Block]:
        """Cut the rows into equal shares, one per part, and keep what is left; none if there are
        too few."""
        block = block if self.left is None else concat([self.left, block])
        rows = block.num_rows // self.parts
        left = block.slice(rows * self.parts)
        self.left = left if left.num_rows else None
        return [block.slice(part * rows, rows) for part in range(self.parts)] if rows else []

    def repeated(self) -> list[Block]:
        """Give each part one more row, of those that are left at the end; some go to several."""
        if self.left is None:
            return []
        rows = self.left.num_rows
        return [self.left.take(pa.array([part % rows])) for part in range(self.parts)]


def deals_until(states: Sequence[Mapping[str, Any]]) -> Deals:
    """List the deals before those that begin where these states of parts are."""
    parts = states[0]["parts"]
    rows = {int(state["part"]): int(state["rows"]) for state in states}
    before = merged([state["deals"] for state in states])
    return [*before, (parts, rows)]


def merged(known: Sequence[Deals]) -> Deals:
    """Merge what each of several parts knows about the deals into one list of them."""
    longest = max(known, key=len, default=())
    return [
        (parts, {p: rows for deals in known if len(deals) > n for p, rows in deals[n][1].items()})
        for n, (parts, _) in enumerate(longest)
    ]


def remaining(blocks: Iterator[Block], known: Sequence[Deals]) -> Iterator[Block]:
    """Yield the rows that nobody took in earlier deals, in order. Parts of which nobody knows took
    as many as others: they are in step."""
    for parts, rows in merged(known):
        usual = next(iter(rows.values()), 0)
        blocks = _not_taken(blocks, [rows.get(part, usual) for part in range(parts)])
    return blocks


def _not_taken(blocks: Iterator[Block], taken: list[int]) -> Iterator[Block]:
    dealer = EvenDealer(len(taken))
    for block in blocks:
        for part, piece in enumerate(dealer.deal(block)):
            skip = min(taken[part], piece.num_rows)
            taken[part] -= skip
            if skip < piece.num_rows:
                yield piece.slice(skip)
    if dealer.left is not None:
        rows = dealer.left.num_rows
        gone = {part % rows for part in range(len(taken)) if taken[part]}
        kept = [row for row in range(rows) if row not in gone]
        if kept:
            yield dealer.left.take(pa.array(np.array(kept, np.int64)))
