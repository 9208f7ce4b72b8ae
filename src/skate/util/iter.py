"""Iterators whose items are made by actors, a shard each: `from_items([...]).for_each(f)`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import skate
from skate._core.public_names import name_publicly
from skate.util._iterator_shards import (
    Repartitioned,
    ShardActor,
    ShardSet,
    Transform,
    begun_passes,
    items_as_ready,
)
from skate.util._iterator_worker import ParallelIteratorWorker
from skate.util._local_iterator import NOT_READY, LocalIterator, Source
from skate.util.iter_metrics import SharedMetrics

__all__ = [
    "LocalIterator",
    "ParallelIterator",
    "ParallelIteratorWorker",
    "from_actors",
    "from_items",
    "from_iterators",
    "from_range",
]

T = TypeVar("T")
U = TypeVar("U")


def from_items(items: list[T], num_shards: int = 2, repeat: bool = False) -> ParallelIterator[T]:
    """Make a parallel iterator of items.

    Args:
        items: The items; each shard gets every `num_shards`-th.
        num_shards: How many actors there are.
        repeat: Whether it begins anew at the end, for ever.
    """
    shards = [items[index::num_shards] for index in range(num_shards)]
    kind = type(items[0]).__name__ if items else "None"
    more = ", repeat=True" if repeat else ""
    name = f"from_items[{kind}, {len(items)}, shards={num_shards}{more}]"
    return from_iterators(shards, repeat=repeat, name=name)


def from_range(n: int, num_shards: int = 2, repeat: bool = False) -> ParallelIterator[int]:
    """Make a parallel iterator of the numbers below `n`.

    Args:
        n: How many.
        num_shards: How many actors there are; each gets numbers that follow each other.
        repeat: Whether it begins anew at the end, for ever.
    """
    size = n // num_shards
    ends = [(index + 1) * size for index in range(num_shards - 1)] + [n]
    shards = [range(index * size, end) for index, end in enumerate(ends)]
    more = ", repeat=True" if repeat else ""
    return from_iterators(
        shards, repeat=repeat, name=f"from_range[{n}, shards={num_shards}{more}]"
    )


def from_iterators(
    generators: Sequence[Iterable[T] | Callable[[], Iterable[T]]],
    repeat: bool = False,
    name: str | None = None,
) -> ParallelIterator[T]:
    """Make a parallel iterator of iterables, each of which is a shard.

    Args:
        generators: Iterables, or functions that return one.
        repeat: Whether it begins anew at the end, for ever.
        name: What it is called when it is printed.
    """
    more = ", repeat=True" if repeat else ""
    name = name or f"from_iterators[shards={len(generators)}{more}]"
    return _from_shards(generators, repeat, name)


def _from_shards(shards: Sequence[object], repeat: bool, name: str) -> ParallelIterator[Any]:
    worker = skate.remote(ParallelIteratorWorker)
    return from_actors([worker.remote(shard, repeat) for shard in shards], name)


def from_actors(actors: list[Any], name: str | None = None) -> ParallelIterator[Any]:
    """Make a parallel iterator of actors, each of which is a shard.

    Args:
        actors: Handles of actors whose class is a `ParallelIteratorWorker`.
        name: What it is called when it is printed.
    """
    shards = [ShardActor(actor) for actor in actors]
    return ParallelIterator([ShardSet(shards, ())], name or f"from_actors[shards={len(actors)}]")


class ParallelIterator(Generic[T]):
    """Items that actors make, a shard each; nothing is made before it is gathered.

    Args:
        actor_sets: Actors, and what they do with their items.
        name: What it is called when it is printed.
    """

    def __init__(self, actor_sets: Sequence[ShardSet], name: str) -> None:
        self.actor_sets = [*actor_sets]
        self.name = name

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "the items are in several processes: iterate over .gather_sync() or .gather_async()"
        )

    def __repr__(self) -> str:
        return f"ParallelIterator[{self.name}]"

    # -- in the actors -------------------------------------------------------------------------

    def _with(self, transform: Transform, name: str) -> ParallelIterator[Any]:
        sets = [ShardSet(one.shards, (*one.transforms, transform)) for one in self.actor_sets]
        return ParallelIterator(sets, f"{self.name}{name}")

    def transform(self, fn: Callable[[Iterable[T]], Iterable[U]]) -> ParallelIterator[U]:
        """Pass the items of each shard through a function of iterables."""
        return self._with(lambda shard: shard.transform(fn), ".transform()")

    def for_each(
        self,
        fn: Callable[[T], U],
        max_concurrency: int = 1,
        resources: dict[str, Any] | None = None,
    ) -> ParallelIterator[U]:
        """Call a function of each item.

        Args:
            fn: The function.
            max_concurrency: How many calls of a shard run at a time; more than one run as tasks,
                whose results come as they are ready.
            resources: Options of these tasks, as `num_cpus`.
        """
        return self._with(
            lambda shard: shard.for_each(fn, max_concurrency, resources), ".for_each()"
        )

    def filter(self, fn: Callable[[T], bool]) -> ParallelIterator[T]:
        """Keep the items for which a function returns something true."""
        return self._with(lambda shard: shard.filter(fn), ".filter()")

    def batch(self, n: int) -> ParallelIterator[list[T]]:
        """Put the items of each shard into lists of `n`."""
        return self._with(lambda shard: shard.batch(n), f".batch({n})")

    def flatten(self: ParallelIterator[list[U]]) -> ParallelIterator[U]:
        """Take the items out of lists."""
        return self._with(lambda shard: shard.flatten(), ".flatten()")

    def combine(self, fn: Callable[[T], list[U]]) -> ParallelIterator[U]:
        """Call a function of each item, and take what it returns out of its lists."""
        return self._with(lambda shard: shard.combine(fn), ".combine()")

    def local_shuffle(
        self, shuffle_buffer_size: int, seed: int | None = None
    ) -> ParallelIterator[T]:
        """Change the order within each shard.

        Args:
            shuffle_buffer_size: How many items a shard holds back.
            seed: Makes the order the same each time.
        """
        return self._with(
            lambda shard: shard.shuffle(shuffle_buffer_size, seed),
            f".local_shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})",
        )

    def repartition(self, num_partitions: int, batch_ms: int = 0) -> ParallelIterator[T]:
        """Distribute the items over another number of shards.

        Args:
            num_partitions: How many there are then: each takes every so many of each shard.
            batch_ms: For how long a shard collects items before it sends them.
        """
        parts = [
            Repartitioned(self._pairs(), num_partitions, index, batch_ms)
            for index in range(num_partitions)
        ]
        name = f"{self.name}.repartition[num_partitions={num_partitions}]"
        return _from_shards(parts, repeat=False, name=name)

    def union(self, other: ParallelIterator[U]) -> ParallelIterator[T | U]:
        """Have the shards of another one, too.

        Args:
            other: The other one.

        Raises:
            TypeError: If it is no ParallelIterator.
        """
        if not isinstance(other, ParallelIterator):
            raise TypeError(f"union() takes another ParallelIterator; got {other!r}")
        sets = [*self.actor_sets, *other.actor_sets]
        return ParallelIterator(sets, f"ParallelUnion[{self}, {other}]")

    def select_shards(self, shards_to_keep: list[int]) -> ParallelIterator[T]:
        """Keep some shards only.

        Args:
            shards_to_keep: Their numbers.

        Raises:
            ValueError: If there are none, or it is a union.
        """
        if len(self.actor_sets) > 1:
            raise ValueError("select_shards() is not possible after union(): select before it")
        if not shards_to_keep:
            raise ValueError("select_shards() takes one shard at the least")
        (one,) = self.actor_sets
        kept = [one.shards[index] for index in shards_to_keep]
        name = f"{self.name}.select_shards({len(kept)} total)"
        return ParallelIterator([ShardSet(kept, one.transforms)], name)

    # -- gathering -----------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[ShardActor, tuple[Transform, ...]]]:
        return [pair for one in self.actor_sets for pair in one.pairs()]

    def gather_sync(self) -> LocalIterator[T]:
        """Return an iterator over the items, one of each shard in turn."""
        found = self.batch_across_shards().flatten()
        found.name = f"{self}.gather_sync()"
        return found

    def batch_across_shards(self) -> LocalIterator[list[T]]:
        """Return an iterator over lists with the next item of each shard that has one."""

        def rounds(wait: bool) -> Iterator[Any]:
            with begun_passes(self._pairs()) as passes:
                left = [(each, each.next()) for each in passes]
                while left:
                    refs = [ref for _, ref in left]
                    if not wait and len(skate.wait(refs, num_returns=len(refs), timeout=0)[1]):
                        yield NOT_READY
                        continue
                    answers = skate.get(refs)
                    left = [
                        (each, each.next())
                        for (each, _), answer in zip(left, answers, strict=True)
                        if answer
                    ]
                    if batch := [item for answer in answers for item in answer]:
                        yield batch

        return self._local(rounds, ".batch_across_shards()")

    def gather_async(self, batch_ms: int = 0, num_async: int = 1) -> LocalIterator[T]:
        """Return an iterator over the items as they are ready.

        Args:
            batch_ms: For how long an actor collects items before it sends them.
            num_async: How many requests are with each actor.

        Raises:
            ValueError: If one of them is negative, or `num_async` 0.
        """
        _check(batch_ms, num_async)

        def items(wait: bool) -> Iterator[Any]:
            with begun_passes(self._pairs()) as passes:
                yield from items_as_ready(
                    passes, lambda one: one.next_batch(batch_ms), num_async, wait
                )

        return self._local(items, ".gather_async()")

    def take(self, n: int) -> list[T]:
        """Return up to `n` items, one of each shard in turn."""
        return self.gather_sync().take(n)

    def show(self, n: int = 20) -> None:
        """Print up to `n` items."""
        self.gather_sync().show(n)

    def num_shards(self) -> int:
        """Return how many shards there are."""
        return sum(len(one.shards) for one in self.actor_sets)

    def shards(self) -> list[LocalIterator[T]]:
        """Return an iterator for each shard."""
        together = uuid.uuid4().hex
        return [self._shard(index, 0, 1, together) for index in range(self.num_shards())]

    def get_shard(
        self, shard_index: int, batch_ms: int = 0, num_async: int = 1
    ) -> LocalIterator[T]:
        """Return an iterator over the items of one shard.

        Args:
            shard_index: Which.
            batch_ms: For how long its actor collects items before it sends them.
            num_async: How many requests are with the actor.

        Raises:
            ValueError: If there is no such shard.
        """
        _check(batch_ms, num_async)
        if not 0 <= shard_index < self.num_shards():
            raise ValueError(f"shard_index takes 0 to {self.num_shards() - 1}; got {shard_index}")
        return self._shard(shard_index, batch_ms, num_async, None)

    def _shard(
        self, index: int, batch_ms: int, num_async: int, together: str | None
    ) -> LocalIterator[T]:
        pair = self._pairs()[index]

        def items(wait: bool) -> Iterator[Any]:
            with begun_passes([pair], together) as passes:
                yield from items_as_ready(
                    passes, lambda one: one.next_batch(batch_ms), num_async, wait
                )

        return LocalIterator(items, SharedMetrics(), [], f"{self.name}.shard[{index}]")

    def _local(self, source: Source, name: str) -> LocalIterator[Any]:
        return LocalIterator(source, SharedMetrics(), [], f"{self}{name}")


def _check(batch_ms: int, num_async: int) -> None:
    if num_async < 1:
        raise ValueError(f"num_async, the queue depth, must be positive; got {num_async}")
    if batch_ms < 0:
        raise ValueError(f"batch_ms, the batch time, must not be negative; got {batch_ms}")


name_publicly(__name__)
