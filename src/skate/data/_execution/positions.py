"""Where a consumer is in a stream of rows, so that another iteration goes on behind it.

    task 0 ─► blocks ┐                          a position: the task of the source whose rows come
    task 1 ─► blocks ├─► cursor ─► batches      next, and how many of them were taken already
    task 2 ─► blocks ┘

Tasks before that one are not read again. Where it is not known which task a block comes from,
after an exchange or in batches of several tasks, the last task for which it is known counts, and
rows that were taken are computed again and left out. So it is, from the first row on, where the
source has other tasks than it had.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import Block, concat
from skate.data._arrow.sorting import taken
from skate.data._arrow.tensors import is_object
from skate.data._execution.bundles import Bundle
from skate.data._plan import nodes as plan
from skate.data._plan.seeds import Reseeding

State = dict[str, Any]


@dataclass
class ReadPosition:
    """The task that an execution begins with; `tasks` tells those of one source from others."""

    task: int = 0
    tasks: str = ""

    def begin(self, found: str) -> int:
        """Return the number of the first task to read; 0 if the source had other tasks than
        `found`."""
        if self.tasks != found:
            self.task = 0
        self.tasks = found
        return self.task


class BlockCursor:
    """Blocks on their way to a consumer, which can tell where it is."""

    owns: bool = False  # whether the consumer writes to what it gets

    def __init__(
        self,
        bundles: Iterator[Bundle],
        start: Mapping[str, Any] | None = None,
        position: ReadPosition | None = None,
    ) -> None:
        self._bundles = bundles
        self._position = position or ReadPosition()
        self._wanted = self._position.task
        self._before: int = 0 if start is None else start["rows"]
        self._rows_of_task: int = 0 if start is None else start["rows_of_task"]
        self._left_out = 0  # rows that the consumer has from an iteration before
        self._fed = 0
        self._begins: list[tuple[int, int]] = []  # rows until then, and a task that begins there
        self._ends: list[int] = []  # rows until the end of each block that was given

    def __iter__(self) -> Iterator[Block]:
        try:
            first = next(self._bundles, None)
            is_there = self._position.task == self._wanted
            self._left_out = self._rows_of_task if is_there else self._before
            self._begins = [(0, self._position.task)]
            if first is not None:
                yield from self._given(first)
                for bundle in self._bundles:
                    yield from self._given(bundle)
        finally:
            close = getattr(self._bundles, "close", None)
            if close is not None:
                close()

    def _given(self, bundle: Bundle) -> Iterator[Block]:
        if bundle.start is not None:
            self._begins.append((self._fed, bundle.start))
        skip = max(0, self._left_out - self._fed)
        self._fed += bundle.rows
        if skip >= bundle.rows and bundle.rows:
            return
        if bundle.rows:
            self._ends.append(self._fed - self._left_out)
        block = bundle.own() if self.owns else bundle.get()
        yield block.slice(skip) if skip else block

    def rows_until(self, blocks: int) -> int:
        """Count the rows of the first `blocks` blocks that were given."""
        return self._ends[blocks - 1] if blocks else 0

    def at(self, rows: int) -> State:
        """Describe the position behind so many rows that were given."""
        if not self._begins:  # nothing was given yet
            fed, task = 0, self._wanted
            behind = self._rows_of_task
        else:
            behind = rows + self._left_out
            fed, task = self._begins[bisect_right(self._begins, (behind, 1 << 62)) - 1]
        return {
            "rows": self._before + rows,
            "task": task,
            "rows_of_task": behind - fed,
            "tasks": self._position.tasks,
        }


# -- shuffling in a buffer ----------------------------------------------------------------------


class Mixed(NamedTuple):
    """The buffer after it was mixed: rows that go out, those that stay, and what comes next."""

    before: int  # rows that went out until then
    out: Block
    held: Block | None
    fed: int  # rows that had come in
    random: Any


class LocalShuffle:
    """Draws rows at random from a buffer of at least `size` of them. It is mixed when there are
    twice as many, so that each row is moved only a few times."""

    def __init__(self, size: int, seed: int | None, state: State | None = None) -> None:
        self._size = size
        self._random = np.random.default_rng(seed)
        self._mixes: deque[Mixed] = deque()
        self._pending: Block | None = None
        self._held: Block | None = None
        if state is not None:
            self._random.bit_generator.state = state["random"]
            self._pending, self._held = map(_table_of, (state["out"], state["held"]))

    def mixed(self, blocks: Iterator[Block], batch_size: int) -> Iterator[Block]:
        """Yield the rows in another order, in blocks of whole batches, all but the last."""
        given = fed = 0
        held = [] if self._held is None else [self._held]
        rows = sum(block.num_rows for block in held)
        if self._pending is not None:
            self._note(given, self._pending, self._held, fed)
            given += self._pending.num_rows
            yield self._pending
        for block in blocks:
            held.append(block)
            rows += block.num_rows
            fed += block.num_rows
            ready = (rows - self._size) // batch_size * batch_size
            if ready > 0 and rows >= 2 * self._size:
                table = taken(concat(held), self._random.permutation(rows))
                held, rows = [table.slice(ready)], rows - ready
                self._note(given, table.slice(0, ready), held[0], fed)
                given += ready
                yield table.slice(0, ready)
        if rows:
            table = taken(concat(held), self._random.permutation(rows))
            self._note(given, table, None, fed)
            yield table

    def _note(self, given: int, out: Block, held: Block | None, fed: int) -> None:
        self._mixes.append(Mixed(given, out, held, fed, self._random.bit_generator.state))

    def forget(self, rows: int) -> None:
        """Let go of what was noted until the consumer had so many rows."""
        while len(self._mixes) > 1 and self._mixes[1].before <= rows:
            self._mixes.popleft()

    def at(self, rows: int) -> tuple[int, State]:
        """Return how many rows had come in when so many had gone out, and what was in the buffer
        then."""
        self.forget(rows)
        if not self._mixes:
            nothing = {"out": _bytes_of(self._pending), "held": _bytes_of(self._held)}
            return 0, {**nothing, "random": self._random.bit_generator.state}
        mix = self._mixes[0]
        out = mix.out.slice(rows - mix.before)
        found = {"out": _bytes_of(out), "held": _bytes_of(mix.held), "random": mix.random}
        return mix.fed, found


def _bytes_of(block: Block | None) -> bytes | None:
    if block is None or not block.num_rows:
        return None
    for field in block.schema:
        if is_object(field.type):
            raise TypeError(
                f"column {field.name!r} holds Python objects, which the state of a shuffle buffer "
                "cannot: drop it, or shuffle by random_shuffle(seed=...)"
            )
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, block.schema) as writer:
        writer.write_table(block)
    return bytes(sink.getvalue())


def _table_of(content: bytes | None) -> Block | None:
    return None if content is None else pa.ipc.open_stream(content).read_all()


# -- seeds that change --------------------------------------------------------------------------


def draws_of(node: plan.Node) -> list[int]:
    """Count how often seeds that change with each execution were used, operation by operation."""
    return [_counter(each)[0] for each in plan.walk(node)]


def set_draws(node: plan.Node, draws: Sequence[int]) -> None:
    """Let the next execution be the one that it was at that count."""
    for each, count in zip(plan.walk(node), draws, strict=False):
        counted = _counter(each)[1]
        if counted is not None:
            counted(count)


def _counter(node: plan.Node) -> tuple[int, Any]:
    seed = getattr(node, "seed", None)
    if isinstance(seed, Reseeding):
        return seed.uses, lambda count: setattr(seed, "uses", count)
    executions = getattr(node, "executions", None)
    if executions is not None:
        return executions.number, lambda count: setattr(executions, "number", count)
    files = getattr(node.source, "_executions", None) if isinstance(node, plan.Read) else None
    if files is not None:
        return files[0], lambda count: files.__setitem__(0, count)
    return 0, None
