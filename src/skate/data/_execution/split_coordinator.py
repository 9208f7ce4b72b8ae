"""One execution that several consumers read, each its own part, in step.

    consumer 0 ──next──►┐
    consumer 1 ──next──►│ Coordinator (an actor): runs the plan once per epoch, deals out blocks
    consumer 2 ──next──►┘

An epoch begins when all consumers have asked for it, and a consumer that is behind holds back the
execution, not the others' memory: at most `AHEAD` blocks wait for each, of small ones as many as
`bytes_ahead` holds. If its process has died, those that wait for it get an error, unless a retry
reads on.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from skate.data._arrow.blocks import Block, compact
from skate.data._arrow.schema import Schema
from skate.data._execution.bundles import even_bundles
from skate.data._execution.dealing import Deals, EvenDealer, WaitingBlocks, remaining
from skate.data._execution.early_exit import close_early
from skate.data._execution.split_readers import SplitReader
from skate.exceptions import WorkerCrashedError

if TYPE_CHECKING:
    from skate.data.dataset import Dataset

AHEAD = 2
REMEMBERED_ITERATIONS = 3  # of a part, before the last one


class Turn(NamedTuple):
    """Identify an iteration over a part, as its consumer sees it.

    It has the number of those before it, which is 0 again for a copy of the part in another
    process, and a name that no other one has.
    """

    number: int
    name: str


@dataclass
class Iteration:
    """An iteration over a part as the coordinator sees it."""

    turn: Turn
    epoch: int
    reader: SplitReader
    over: bool = False  # its consumer has all blocks, or wants no more


class Coordinator:
    """Run the plan, and deal out the blocks.

    It is an async actor: its methods share one loop and need no locks; the plan itself runs in a
    thread, one block at a time.
    """

    def __init__(
        self, dataset: Dataset, n: int, uneven: str, patience: float, bytes_ahead: int
    ) -> None:
        self._dataset = dataset
        self._n = n
        self._uneven = uneven
        self._patience = patience
        self._bytes_ahead = bytes_ahead
        self._readers: list[SplitReader | None] = [None] * n
        self._iterations: list[list[Iteration]] = [[] for _ in range(n)]  # of each part
        self._rows_given = [0] * n
        self._deals: dict[int, Deals] = {}  # of earlier runs, as each part knows them
        self._missed: dict[SplitReader, float] = {}  # who died, and when that was noticed
        self._changed = asyncio.Condition()
        self._epoch = -1
        self._wanted = [-1] * n  # the epoch that each part has asked for,
        self._done_with = [-1] * n  # and the last one that it wants no more of
        self._blocks: Iterator[Block] = iter(())
        self._queues: list[WaitingBlocks] = []
        self._dealer = EvenDealer(n)
        self._ended = True
        self._working = False
        self._pulling: asyncio.Task[None] | None = None  # kept, as the loop does not
        self._error: BaseException | None = None
        self._warned = False

    async def schema(self) -> Schema | None:
        return await asyncio.to_thread(self._dataset.schema)

    async def stats(self) -> str:
        return self._dataset.stats()

    async def next(
        self, number: int, turn: Turn, reader: SplitReader, deals: Deals = ()
    ) -> Block | None:
        """Return the next block of a part, None at the end of the epoch."""
        async with self._changed:
            mine = self._iteration(number, turn, reader)
            self._deals[number] = deals
            await self._begin(number, mine.epoch, reader)
            while True:
                if mine is not self._iterations[number][-1] and not mine.over:
                    raise self._two_readers(number)
                if mine.over or self._is_gone(number):
                    return None
                if self._queues[number]:
                    self._changed.notify_all()
                    return self._queues[number].take()
                if self._error is not None or self._ended:
                    mine.over = True
                if self._error is not None:
                    raise self._error
                if self._ended:
                    return None
                if self._working:
                    await self._changed.wait()
                elif not self._has_room(number):
                    await self._others(self._full(number), reader)
                else:
                    self._pull(number)

    def _iteration(self, number: int, turn: Turn, reader: SplitReader) -> Iteration:
        """Return the iteration of this turn.

        A new one begins the next epoch of its part, unless it reads on for a process that died.
        """
        known = self._iterations[number]
        mine = next((each for each in known if each.turn.name == turn.name), None)
        if mine is not None:
            return mine
        last = known[-1] if known else None
        epoch = 0 if last is None else last.epoch + 1
        if last is not None and not last.over and turn.number <= last.turn.number:
            if not last.reader.may_have_died():
                raise self._two_readers(number)
            epoch = last.epoch
        mine = Iteration(turn, epoch, reader)
        self._iterations[number] = [*known[-REMEMBERED_ITERATIONS:], mine]
        self._readers[number] = reader
        return mine

    def _two_readers(self, number: int) -> ValueError:
        """Make the error for two iterators of one part, each of which would get some rows."""
        last = self._iterations[number][-1]
        return ValueError(
            f"part {number} of a split in {self._n} is read by two iterators at a time, one of "
            f"them in process {last.reader.process}: give each consumer a part of its own, and "
            "end an iteration before the next one begins"
        )

    async def _begin(self, number: int, epoch: int, reader: SplitReader) -> None:
        """Wait until all parts have asked for this epoch."""
        if epoch > self._wanted[number]:
            self._wanted[number] = epoch
            self._forget(number, epoch - 1)
        while self._epoch < epoch:
            if self._working:
                await self._changed.wait()
            elif min(self._wanted) <= self._epoch:
                late = [part for part in range(self._n) if self._wanted[part] <= self._epoch]
                await self._others(late, reader)
            else:
                await self._start(min(self._wanted))

    async def _others(self, parts: list[int], reader: SplitReader) -> None:
        """Wait for parts that have to read on before this one can."""
        with suppress(asyncio.TimeoutError):
            await asyncio.wait_for(self._changed.wait(), self._patience)
            return
        self._stalled(parts, reader)

    def _stalled(self, parts: list[int], reader: SplitReader) -> None:
        """Raise if parts will never be read on, or say once which they are."""
        what = f"part {', '.join(map(str, parts))} of a split in {self._n}"
        if reader.is_here() and self._is_only_thread(reader, parts):
            raise RuntimeError(
                f"{what} is not read, and cannot be: the inline engine runs one task after the "
                "other, and the parts of streaming_split wait for each other. Use "
                "skate.init(engine='local'), threads of your own, or split()"
            )
        for part in parts:
            self._check_alive(part)
        if not self._warned:
            self._warned = True
            warnings.warn(f"{what} is not read, and others wait for it", stacklevel=2)

    def _is_only_thread(self, reader: SplitReader, parts: list[int]) -> bool:
        """Return whether the thread that waits would have to read the parts as well."""
        others = [self._readers[part] for part in parts]
        return reader.busy and all(other is None or other.busy for other in others)

    def _check_alive(self, part: int) -> None:
        """Raise for a part whose reader died, unless a retry may still come and take its place."""
        reader = self._readers[part]
        if reader is None or not reader.has_died():
            return
        now = time.monotonic()
        if now - self._missed.setdefault(reader, now) > self._patience / 2:
            raise WorkerCrashedError(
                f"the process {reader.process}, which read part {part} of a split in {self._n}, "
                "has died, and the other parts cannot go on without it. Split the dataset anew "
                "for all consumers, or use split(), whose parts do not depend on each other",
                pid=reader.process,
            )

    async def leave(self, number: int, turn: Turn) -> None:
        """End the epoch of a part early."""
        async with self._changed:
            for mine in self._iterations[number]:
                if mine.turn.name == turn.name:
                    mine.over = True
                    self._forget(number, mine.epoch)

    def _forget(self, number: int, epoch: int) -> None:
        """Note that a part wants no more of an epoch, and let its queue stay empty."""
        self._done_with[number] = max(self._done_with[number], epoch)
        if self._is_gone(number) and self._queues:
            self._queues[number].clear()
        self._changed.notify_all()

    def _is_gone(self, number: int) -> bool:
        return self._done_with[number] >= self._epoch

    async def _start(self, epoch: int) -> None:
        await asyncio.to_thread(close_early, self._blocks)
        self._epoch = epoch
        self._blocks = remaining(self._dataset._blocks_ahead(), list(self._deals.values()))
        self._queues = [WaitingBlocks() for _ in range(self._n)]
        self._rows_given = [0] * self._n
        self._ended, self._error = False, None
        self._dealer = EvenDealer(self._n)
        self._changed.notify_all()

    def _has_room(self, number: int) -> bool:
        return self._uneven == "keep" or not self._full(number)

    def _full(self, number: int) -> list[int]:
        """List the other parts that have as much as may wait for them."""
        served = self._served(number)
        return [part for part in served if self._queues[part].nbytes >= self._bytes_ahead]

    def _served(self, number: int) -> list[int]:
        """List the other parts for which some blocks wait."""
        return [
            part
            for part, queue in enumerate(self._queues)
            if len(queue) >= AHEAD and part != number and not self._is_gone(part)
        ]

    def _pull(self, number: int) -> None:
        """Begin to get one block. It may take long: a part that leaves does not wait for it."""
        self._working = True
        self._pulling = asyncio.create_task(self._pulled(number))

    async def _pulled(self, number: int) -> None:
        """Get one block, without the lock, and deal it out."""
        block: Block | None = None
        error: BaseException | None = None
        try:
            block = await asyncio.to_thread(next, self._blocks, None)
        except Exception as failure:
            error = failure
        async with self._changed:
            self._working = False
            self._error = error
            if error is None:
                self._deal(block, number)
            self._changed.notify_all()

    def _deal(self, block: Block | None, number: int) -> None:
        if block is None:
            self._ended = True
            self._deal_rest()
        elif self._uneven == "keep":
            # Of few blocks each part gets a share of the first, so that none remains without rows.
            count = self._n if self._has_few_blocks() and not any(self._rows_given) else 1
            for piece in even_bundles(block, count):
                self._give(self._neediest(number), piece.get())
        else:
            for part, piece in enumerate(self._dealer.deal(block)):
                self._give(part, piece)

    def _has_few_blocks(self) -> bool:
        known = getattr(self._dataset, "_plan", None)
        blocks = None if known is None else known.initial_num_blocks()
        return blocks is None or blocks < self._n

    def _neediest(self, number: int) -> int:
        """Return the part that had the fewest rows so far.

        It is one of those for which not many blocks wait, or the one that asks: a slow consumer
        gets its share, and does not hold up the others.
        """
        full = {*self._served(number), *filter(self._is_gone, range(self._n))} - {number}
        waiting = (part for part in range(self._n) if part not in full)
        return min(waiting, key=lambda part: (self._rows_given[part], part != number))

    def _give(self, part: int, block: Block) -> None:
        self._rows_given[part] += block.num_rows
        if not self._is_gone(part):
            self._queues[part].add(compact(block))

    def _deal_rest(self) -> None:
        if self._uneven == "repeat":
            for part, piece in enumerate(self._dealer.repeated()):
                self._give(part, piece)
