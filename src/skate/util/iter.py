"""Iterators whose items are made by actors, a shard each: `from_items([...]).for_each(f)`."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import skate
from skate._core.public_names import name_publicly
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

Transform = Callable[[LocalIterator], LocalIterator]


def from_items(items: list[Any], num_shards: int = 2, repeat: bool = False) -> ParallelIterator:
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


def from_range(n: int, num_shards: int = 2, repeat: bool = False) -> ParallelIterator:
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
    generators: list[Any], repeat: bool = False, name: str | None = None
) -> ParallelIterator:
    """Make a parallel iterator of iterables, each of which is a shard.

    Args:
        generators: Iterables, or functions that return one.
        repeat: Whether it begins anew at the end, for ever.
        name: What it is called when it is printed.
    """
    worker = skate.remote(ParallelIteratorWorker)
    actors = [worker.remote(generator, repeat) for generator in generators]
    more = ", repeat=True" if repeat else ""
    return from_actors(actors, name=name or f"from_iterators[shards={len(actors)}{more}]")


def from_actors(actors: list[Any], name: str | None = None) -> ParallelIterator:
    """Make a parallel iterator of actors, each of which is a shard.

    Args:
        actors: Handles of actors whose class is a `ParallelIteratorWorker`.
        name: What it is called when it is printed.
    """
    return ParallelIterator(
        [_ActorSet([*actors], ())], name or f"from_actors[shards={len(actors)}]"
    )


class _ActorSet(NamedTuple):
    """Actors, and what they do with their items."""

    actors: list[Any]
    transforms: tuple[Transform, ...]

    def start(self) -> list[Any]:
        """Let each begin anew."""
        skate.get([actor.par_iter_init.remote(self.transforms) for actor in self.actors])
        return self.actors


class ParallelIterator:
    """Items that actors make, a shard each; nothing is made before it is gathered.

    Args:
        actor_sets: Actors, and what they do with their items.
        name: What it is called when it is printed.
    """

    def __init__(self, actor_sets: Sequence[_ActorSet], name: str) -> None:
        self.actor_sets = [*actor_sets]
        self.name = name

    def __iter__(self) -> Iterator[Any]:
        raise TypeError(
            "the items are in several processes: iterate over .gather_sync() or .gather_async()"
        )

    def __repr__(self) -> str:
        return f"ParallelIterator[{self.name}]"

    # -- in the actors -------------------------------------------------------------------------

    def _with(self, transform: Transform, name: str) -> ParallelIterator:
        sets = [_ActorSet(one.actors, (*one.transforms, transform)) for one in self.actor_sets]
        return ParallelIterator(sets, f"{self.name}{name}")

    def transform(self, fn: Callable[[Iterable[Any]], Iterable[Any]]) -> ParallelIterator:
        """Pass the items of each shard through a function of iterables."""
        return self._with(lambda shard: shard.transform(fn), ".transform()")

    def for_each(
        self,
        fn: Callable[[Any], Any],
        max_concurrency: int = 1,
        resources: dict[str, Any] | None = None,
    ) -> ParallelIterator:
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

    def filter(self, fn: Callable[[Any], bool]) -> ParallelIterator:
        """Keep the items for which a function returns something true."""
        return self._with(lambda shard: shard.filter(fn), ".filter()")

    def batch(self, n: int) -> ParallelIterator:
        """Put the items of each shard into lists of `n`."""
        return self._with(lambda shard: shard.batch(n), f".batch({n})")

    def flatten(self) -> ParallelIterator:
        """Take the items out of lists."""
        return self._with(lambda shard: shard.flatten(), ".flatten()")

    def combine(self, fn: Callable[[Any], list[Any]]) -> ParallelIterator:
        """Call a function of each item, and take what it returns out of its lists."""
        return self._with(lambda shard: shard.combine(fn), ".combine()")

    def local_shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> ParallelIterator:
        """Change the order within each shard.

        Args:
            shuffle_buffer_size: How many items a shard holds back.
            seed: Makes the order the same each time.
        """
        return self._with(
            lambda shard: shard.shuffle(shuffle_buffer_size, seed),
            f".local_shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})",
        )

    def repartition(self, num_partitions: int, batch_ms: int = 0) -> ParallelIterator:
        """Distribute the items over another number of shards.

        Args:
            num_partitions: How many there are then: each takes every so many of each shard.
            batch_ms: For how long a shard collects items before it sends them.
        """
        shards = [(actor, one.transforms) for one in self.actor_sets for actor in one.actors]
        key = uuid.uuid4().hex

        def part(index: int) -> Callable[[], Iterator[Any]]:
            def items() -> Iterator[Any]:
                transforms = dict(shards)
                ask = lambda actor: actor.par_iter_slice.remote(  # noqa: E731
                    key, transforms[actor], num_partitions, index, batch_ms
                )
                yield from _as_ready([actor for actor, _ in shards], ask, 1, wait=True)

            return items

        name = f"{self.name}.repartition[num_partitions={num_partitions}]"
        return from_iterators([part(index) for index in range(num_partitions)], name=name)

    def union(self, other: ParallelIterator) -> ParallelIterator:
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

    def select_shards(self, shards_to_keep: list[int]) -> ParallelIterator:
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
        kept = [one.actors[index] for index in shards_to_keep]
        name = f"{self.name}.select_shards({len(kept)} total)"
        return ParallelIterator([_ActorSet(kept, one.transforms)], name)

    # -- gathering -----------------------------------------------------------------------------

    def _start(self) -> list[Any]:
        return [actor for one in self.actor_sets for actor in one.start()]

    def gather_sync(self) -> LocalIterator:
        """Return an iterator over the items, one of each shard in turn."""
        found = self.batch_across_shards().flatten()
        found.name = f"{self}.gather_sync()"
        return found

    def batch_across_shards(self) -> LocalIterator:
        """Return an iterator over lists with the next item of each shard that has one."""

        def rounds(wait: bool) -> Iterator[Any]:
            left = [(actor, actor.par_iter_next.remote()) for actor in self._start()]
            while left:
                refs = [ref for _, ref in left]
                if not wait and len(skate.wait(refs, num_returns=len(refs), timeout=0)[1]):
                    yield NOT_READY
                    continue
                answers = skate.get(refs)
                left = [
                    (actor, actor.par_iter_next.remote())
                    for (actor, _), answer in zip(left, answers, strict=True)
                    if answer
                ]
                if batch := [item for answer in answers for item in answer]:
                    yield batch

        return self._local(rounds, ".batch_across_shards()")

    def gather_async(self, batch_ms: int = 0, num_async: int = 1) -> LocalIterator:
        """Return an iterator over the items as they are ready.

        Args:
            batch_ms: For how long an actor collects items before it sends them.
            num_async: How many requests are with each actor.

        Raises:
            ValueError: If one of them is negative, or `num_async` 0.
        """
        _check(batch_ms, num_async)

        def items(wait: bool) -> Iterator[Any]:
            ask = lambda actor: actor.par_iter_next_batch.remote(batch_ms)  # noqa: E731
            yield from _as_ready(self._start(), ask, num_async, wait)

        return self._local(items, ".gather_async()")

    def take(self, n: int) -> list[Any]:
        """Return up to `n` items, one of each shard in turn."""
        return self.gather_sync().take(n)

    def show(self, n: int = 20) -> None:
        """Print up to `n` items."""
        self.gather_sync().show(n)

    def num_shards(self) -> int:
        """Return how many shards there are."""
        return sum(len(one.actors) for one in self.actor_sets)

    def shards(self) -> list[LocalIterator]:
        """Return an iterator for each shard."""
        return [self.get_shard(index) for index in range(self.num_shards())]

    def get_shard(self, shard_index: int, batch_ms: int = 0, num_async: int = 1) -> LocalIterator:
        """Return an iterator over the items of one shard.

        Args:
            shard_index: Which.
            batch_ms: For how long its actor collects items before it sends them.
            num_async: How many requests are with the actor.

        Raises:
            ValueError: If there is no such shard.
        """
        _check(batch_ms, num_async)
        pairs = [(actor, one.transforms) for one in self.actor_sets for actor in one.actors]
        if not 0 <= shard_index < len(pairs):
            raise ValueError(f"shard_index takes 0 to {len(pairs) - 1}; got {shard_index}")
        actor, transforms = pairs[shard_index]

        def items(wait: bool) -> Iterator[Any]:
            skate.get(actor.par_iter_init.remote(transforms))
            ask = lambda actor: actor.par_iter_next_batch.remote(batch_ms)  # noqa: E731
            yield from _as_ready([actor], ask, num_async, wait)

        return LocalIterator(items, SharedMetrics(), [], f"{self.name}.shard[{shard_index}]")

    def _local(self, source: Source, name: str) -> LocalIterator:
        return LocalIterator(source, SharedMetrics(), [], f"{self}{name}")


def _check(batch_ms: int, num_async: int) -> None:
    if num_async < 1:
        raise ValueError(f"num_async, the queue depth, must be positive; got {num_async}")
    if batch_ms < 0:
        raise ValueError(f"batch_ms, the batch time, must not be negative; got {batch_ms}")


def _as_ready(
    actors: Sequence[Any], ask: Callable[[Any], Any], depth: int, wait: bool
) -> Iterator[Any]:
    """Yield what actors answer, as it comes, with so many requests at each of them.

    Requests to one actor are answered in order, so that they are read in order.
    """
    queues = {actor: deque(ask(actor) for _ in range(depth)) for actor in actors}
    while queues:
        firsts = {queue[0]: actor for actor, queue in queues.items()}
        ready, _ = skate.wait([*firsts], timeout=None if wait else 0)
        if not ready:
            yield NOT_READY
            continue
        actor = firsts[ready[0]]
        answer = skate.get(queues[actor].popleft())
        if not answer:
            del queues[actor]
            continue
        queues[actor].append(ask(actor))
        for item in answer:
            LocalIterator.get_metrics().current_actor = actor
            yield item


class ParallelIteratorWorker:
    """Makes the items of one shard; an actor class, to be inherited from.

    Args:
        item_generator: The items: an iterable, or a function that returns one.
        repeat: Whether they begin anew at the end, for ever.
    """

    def __init__(self, item_generator: Any, repeat: bool) -> None:
        self._generator = item_generator
        self._repeat = repeat
        self._items: Iterator[Any] = iter(())
        self._sliced: dict[str, _Slices] = {}

    def _from_the_start(self) -> Iterator[Any]:
        while True:
            generator = self._generator() if callable(self._generator) else self._generator
            empty = True
            for item in generator:
                empty = False
                yield item
            if not self._repeat:
                return
            if empty:
                raise ValueError("repeat=True needs items, and there are none")

    def par_iter_init(self, transforms: Sequence[Transform]) -> None:
        """Begin anew."""
        self._items = self._transformed(transforms)

    def _transformed(self, transforms: Sequence[Transform]) -> Iterator[Any]:
        found = LocalIterator(lambda wait: self._from_the_start(), SharedMetrics())
        for transform in transforms:
            found = transform(found)
        return iter(found)

    def par_iter_next(self) -> list[Any]:
        """Return the next item in a list; an empty one at the end."""
        return _next_of(self._items)

    def par_iter_next_batch(self, batch_ms: int) -> list[Any]:
        """Return the items of so many milliseconds, one at the least; none at the end."""
        return _collected(self.par_iter_next, batch_ms)

    def par_iter_slice(
        self, key: str, transforms: Sequence[Transform], step: int, start: int, batch_ms: int
    ) -> list[Any]:
        """Return items of one slice, `start` of every `step`; none at the end.

        Slices with the same key are of one pass over the items.
        """
        if key not in self._sliced:
            self._sliced[key] = _Slices(self._transformed(transforms), step)
        slices = self._sliced[key]
        found = _collected(lambda: slices.next_of(start), batch_ms)
        if not found and slices.end(start):
            del self._sliced[key]
        return found


class _Slices:
    """One pass over items, handed out to several: each gets every so many."""

    def __init__(self, items: Iterator[Any], count: int) -> None:
        self._items = items
        self._waiting: list[deque[Any]] = [deque() for _ in range(count)]
        self._taken = 0
        self._ended: set[int] = set()

    def end(self, index: int) -> bool:
        """Note that one has been told that there is no more; whether all have."""
        self._ended.add(index)
        return len(self._ended) == len(self._waiting)

    def next_of(self, index: int) -> list[Any]:
        """Return the next item of a slice in a list; an empty one at the end."""
        mine = self._waiting[index]
        while not mine:
            item = _next_of(self._items)
            if not item:
                return []
            self._waiting[self._taken % len(self._waiting)].extend(item)
            self._taken += 1
        return [mine.popleft()]


def _next_of(items: Iterator[Any]) -> list[Any]:
    return [item for _, item in zip(range(1), items, strict=False)]


def _collected(take: Callable[[], list[Any]], milliseconds: int) -> list[Any]:
    end = time.monotonic() + milliseconds / 1000
    found = take()
    while found and time.monotonic() < end:
        more = take()
        if not more:
            break
        found += more
    return found


name_publicly(__name__)
