"""Shards of a parallel iterator: actors that make items, and the passes over what they make."""

from __future__ import annotations

import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import skate
from skate.util._local_iterator import NOT_READY, LocalIterator

Transform = Callable[[LocalIterator[Any]], LocalIterator[Any]]


class ShardActor:
    """An actor, and the passes over its items that nobody goes on with.

    The actor is told of these when the next pass begins: an iterator may be let go at any moment,
    also where no call can be made.
    """

    def __init__(self, actor: Any) -> None:
        self.actor: Any = actor
        self._over: deque[str] = deque()

    def leave(self, key: str) -> None:
        """Note that a pass is over."""
        self._over.append(key)

    def over(self) -> list[str]:
        """Return the passes that are over since the last time."""
        return [self._over.popleft() for _ in range(len(self._over))]


class ShardSet(NamedTuple):
    """Shards, and what their actors do with their items."""

    shards: list[ShardActor]
    transforms: tuple[Transform, ...]

    def pairs(self) -> list[tuple[ShardActor, tuple[Transform, ...]]]:
        return [(shard, self.transforms) for shard in self.shards]


class ShardPass(NamedTuple):
    """One iteration over the items of a shard."""

    shard: ShardActor
    key: str

    def next(self) -> Any:
        return self.shard.actor.par_iter_next.remote(self.key)

    def next_batch(self, batch_ms: int) -> Any:
        return self.shard.actor.par_iter_next_batch.remote(self.key, batch_ms)


@contextmanager
def begun_passes(
    pairs: Sequence[tuple[ShardActor, Sequence[Transform]]], together: str | None = None
) -> Iterator[list[ShardPass]]:
    """Begin to iterate over shards; those that do so together may share what is before them."""
    together = together or uuid.uuid4().hex
    passes = [ShardPass(shard, uuid.uuid4().hex) for shard, _ in pairs]
    try:
        begun = [
            shard.actor.par_iter_init.remote(each.key, together, transforms, shard.over())
            for each, (shard, transforms) in zip(passes, pairs, strict=True)
        ]
        skate.get(begun)
        yield passes
    finally:
        for each in passes:
            each.shard.leave(each.key)


def items_as_ready(
    passes: Sequence[ShardPass], ask: Callable[[ShardPass], Any], depth: int, wait: bool
) -> Iterator[Any]:
    """Yield what actors answer, as it comes, with so many requests of each pass.

    Requests to one actor are answered in order, so that they are read in order.
    """
    queues = {each: deque(ask(each) for _ in range(depth)) for each in passes}
    while queues:
        firsts = {queue[0]: each for each, queue in queues.items()}
        ready, _ = skate.wait([*firsts], timeout=None if wait else 0)
        if not ready:
            yield NOT_READY
            continue
        chosen = firsts[ready[0]]
        answer = skate.get(queues[chosen].popleft())
        if not answer:
            del queues[chosen]
            continue
        queues[chosen].append(ask(chosen))
        for item in answer:
            LocalIterator.get_metrics().current_actor = chosen.shard.actor
            yield item


class Repartitioned:
    """Every so many of the items of each shard: what one actor has after `repartition`."""

    def __init__(
        self,
        pairs: Sequence[tuple[ShardActor, Sequence[Transform]]],
        step: int,
        start: int,
        batch_ms: int,
    ) -> None:
        self._pairs = pairs
        self._step = step
        self._start = start
        self._batch_ms = batch_ms

    def items(self, together: str) -> Iterator[Any]:
        """Yield the items; parts that begin together share one pass of each shard."""
        passes = [ShardPass(shard, uuid.uuid4().hex) for shard, _ in self._pairs]
        transforms = {
            each: transforms for each, (_, transforms) in zip(passes, self._pairs, strict=True)
        }
        # A shard that is there twice is two inputs, each with a pass of its own to share.
        inputs = {each: f"{together}/{number}" for number, each in enumerate(passes)}

        def ask(one: ShardPass) -> Any:
            return one.shard.actor.par_iter_slice.remote(
                one.key, inputs[one], transforms[one], self._step, self._start, self._batch_ms,
                one.shard.over(),
            )  # fmt: skip

        try:
            yield from items_as_ready(passes, ask, 1, wait=True)
        finally:
            for each in passes:
                each.shard.leave(each.key)
