"""Iterators whose items are made by actors, a shard each: `from_items([...]).for_each(f)`."""

from __future__ import annotations

import time
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Generic, NamedTuple, TypeVar

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

T = TypeVar("T")
U = TypeVar("U")
Transform = Callable[[LocalIterator[Any]], LocalIterator[Any]]


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
    shards = [_Shard(actor) for actor in actors]
    return ParallelIterator([_ShardSet(shards, ())], name or f"from_actors[shards={len(actors)}]")


class _Shard:
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


class _ShardSet(NamedTuple):
    """Shards, and what their actors do with their items."""

    shards: list[_Shard]
    transforms: tuple[Transform, ...]

    def pairs(self) -> list[tuple[_Shard, tuple[Transform, ...]]]:
        return [(shard, self.transforms) for shard in self.shards]


class _Pass(NamedTuple):
    """One iteration over the items of a shard."""

    shard: _Shard
    key: str

    def next(self) -> Any:
        return self.shard.actor.par_iter_next.remote(self.key)

    def next_batch(self, batch_ms: int) -> Any:
        return self.shard.actor.par_iter_next_batch.remote(self.key, batch_ms)


@contextmanager
def _begun(
    pairs: Sequence[tuple[_Shard, Sequence[Transform]]], together: str | None = None
) -> Iterator[list[_Pass]]:
    """Begin to iterate over shards; those that do so together may share what is before them."""
    together = together or uuid.uuid4().hex
    passes = [_Pass(shard, uuid.uuid4().hex) for shard, _ in pairs]
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


class ParallelIterator(Generic[T]):
    """Items that actors make, a shard each; nothing is made before it is gathered.

    Args:
        actor_sets: Actors, and what they do with their items.
        name: What it is called when it is printed.
    """

    def __init__(self, actor_sets: Sequence[_ShardSet], name: str) -> None:
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
        sets = [_ShardSet(one.shards, (*one.transforms, transform)) for one in self.actor_sets]
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
            _Part(self._pairs(), num_partitions, index, batch_ms)
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
        return ParallelIterator([_ShardSet(kept, one.transforms)], name)

    # -- gathering -----------------------------------------------------------------------------

    def _pairs(self) -> list[tuple[_Shard, tuple[Transform, ...]]]:
        return [pair for one in self.actor_sets for pair in one.pairs()]

    def gather_sync(self) -> LocalIterator[T]:
        """Return an iterator over the items, one of each shard in turn."""
        found = self.batch_across_shards().flatten()
        found.name = f"{self}.gather_sync()"
        return found

    def batch_across_shards(self) -> LocalIterator[list[T]]:
        """Return an iterator over lists with the next item of each shard that has one."""

        def rounds(wait: bool) -> Iterator[Any]:
            with _begun(self._pairs()) as passes:
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
            with _begun(self._pairs()) as passes:
                yield from _as_ready(passes, lambda one: one.next_batch(batch_ms), num_async, wait)

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
            with _begun([pair], together) as passes:
                yield from _as_ready(passes, lambda one: one.next_batch(batch_ms), num_async, wait)

        return LocalIterator(items, SharedMetrics(), [], f"{self.name}.shard[{index}]")

    def _local(self, source: Source, name: str) -> LocalIterator[Any]:
        return LocalIterator(source, SharedMetrics(), [], f"{self}{name}")


def _check(batch_ms: int, num_async: int) -> None:
    if num_async < 1:
        raise ValueError(f"num_async, the queue depth, must be positive; got {num_async}")
    if batch_ms < 0:
        raise ValueError(f"batch_ms, the batch time, must not be negative; got {batch_ms}")


def _as_ready(
    passes: Sequence[_Pass], ask: Callable[[_Pass], Any], depth: int, wait: bool
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


class _Part:
    """Every so many of the items of each shard: what one actor has after `repartition`."""

    def __init__(
        self,
        pairs: Sequence[tuple[_Shard, Sequence[Transform]]],
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
        passes = [_Pass(shard, uuid.uuid4().hex) for shard, _ in self._pairs]
        transforms = {
            each: transforms for each, (_, transforms) in zip(passes, self._pairs, strict=True)
        }
        # A shard that is there twice is two inputs, each with a pass of its own to share.
        inputs = {each: f"{together}/{number}" for number, each in enumerate(passes)}

        def ask(one: _Pass) -> Any:
            return one.shard.actor.par_iter_slice.remote(
                one.key, inputs[one], transforms[one], self._step, self._start, self._batch_ms,
                one.shard.over(),
            )  # fmt: skip

        try:
            yield from _as_ready(passes, ask, 1, wait=True)
        finally:
            for each in passes:
                each.shard.leave(each.key)


class ParallelIteratorWorker:
    """Makes the items of one shard; an actor class, to be inherited from.

    Args:
        item_generator: The items: an iterable, or a function that returns one.
        repeat: Whether they begin anew at the end, for ever.
    """

    def __init__(self, item_generator: Any, repeat: bool) -> None:
        self._generator = item_generator
        self._repeat = repeat
        self._passes: dict[str, Iterator[Any]] = {}
        self._sliced: dict[str, _Slices] = {}

    def _from_the_start(self, together: str) -> Iterator[Any]:
        while True:
            empty = True
            for item in self._generated(together):
                empty = False
                yield item
            if not self._repeat:
                return
            if empty:
                raise ValueError("repeat=True needs items, and there are none")

    def _generated(self, together: str) -> Iterable[Any]:
        if isinstance(self._generator, _Part):
            return self._generator.items(together)
        found: Iterable[Any] = self._generator() if callable(self._generator) else self._generator
        return found

    def par_iter_init(
        self, key: str, together: str, transforms: Sequence[Transform], over: Sequence[str]
    ) -> None:
        """Begin a pass over the items, and forget those that are over."""
        for former in over:
            self._passes.pop(former, None)
        self._passes[key] = self._transformed(transforms, together)

    def _transformed(self, transforms: Sequence[Transform], together: str) -> Iterator[Any]:
        found: LocalIterator[Any] = LocalIterator(
            lambda wait: self._from_the_start(together), SharedMetrics()
        )
        for transform in transforms:
            found = transform(found)
        return iter(found)

    def par_iter_next(self, key: str) -> list[Any]:
        """Return the next item of a pass in a list; an empty one at the end."""
        if key not in self._passes:
            raise RuntimeError(
                "the actor of this shard was restarted, and does not know how far the iteration "
                "had come: iterate anew"
            )
        return _next_of(self._passes[key])

    def par_iter_next_batch(self, key: str, batch_ms: int) -> list[Any]:
        """Return the items of so many milliseconds, one at the least; none at the end."""
        return _collected(lambda: self.par_iter_next(key), batch_ms)

    def par_iter_slice(
        self,
        key: str,
        together: str,
        transforms: Sequence[Transform],
        step: int,
        start: int,
        batch_ms: int,
        over: Sequence[str],
    ) -> list[Any]:
        """Return items of one slice, `start` of every `step`; none at the end.

        Slices that are read together are of one pass over the items; whoever is the second to
        read the same slice has a pass of its own.
        """
        for former in over:
            for slices in self._sliced.values():
                slices.leave(former)
        shared = key not in self._sliced and self._admits(together, key, start)
        chosen = together if shared else key
        if chosen not in self._sliced:
            self._sliced = {name: each for name, each in self._sliced.items() if each.is_read()}
            items = self._transformed(transforms, together)
            self._sliced[chosen] = _Slices(items, step)
        slices = self._sliced[chosen]
        slices.readers[start] = key
        found = _collected(lambda: slices.next_of(start), batch_ms)
        if not found and slices.end(start):
            del self._sliced[chosen]
        return found

    def _admits(self, together: str, key: str, start: int) -> bool:
        slices = self._sliced.get(together)
        return slices is None or slices.readers.get(start, key) == key


class _Slices:
    """One pass over items, handed out to several: each gets every so many."""

    def __init__(self, items: Iterator[Any], count: int) -> None:
        self._items = items
        self._waiting: list[deque[Any]] = [deque() for _ in range(count)]
        self._taken = 0
        self._ended: set[int] = set()
        self.readers: dict[int, str] = {}

    def is_read(self) -> bool:
        """Whether somebody is in the middle of it; others would find the same items anew."""
        return not self._ended.issuperset(self.readers)

    def leave(self, key: str) -> None:
        """Note that a reader does not go on."""
        self._ended.update(index for index, reader in self.readers.items() if reader == key)

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
