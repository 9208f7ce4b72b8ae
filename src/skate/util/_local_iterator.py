"""Iterators over items that come to one process, and what can be done with them on the way.

A source is a function that makes an iterator of items. It is asked to wait for each item, or, in
a union that takes what is ready, to yield `NOT_READY` instead; steps pass that on.
"""

from __future__ import annotations

import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Generic, TypeVar

import skate
from skate.util.iter_metrics import MetricsContext, SharedMetrics

T = TypeVar("T")
U = TypeVar("U")

NOT_READY = object()
Source = Callable[[bool], Iterator[Any]]  # whether to wait
Step = Callable[[Iterator[Any]], Iterator[Any]]

_PAUSE_SECONDS = 0.001  # before those that were not ready are asked again
_ROUNDS = 5  # for which a copy of an iterator lets others catch up
_running = threading.local()


class LocalIterator(Generic[T]):
    """Iterate over items in one process; made by `gather_sync` and the like.

    Args:
        base_iterator: Makes an iterator of items; is told whether to wait for each of them.
        shared_metrics: What it counts.
        local_transforms: What happens to items, step by step.
        name: What it is called when it is printed.
    """

    def __init__(
        self,
        base_iterator: Source,
        shared_metrics: SharedMetrics,
        local_transforms: Sequence[Step] = (),
        name: str | None = None,
    ) -> None:
        self.name: str = name or "unknown"
        self.shared_metrics = shared_metrics
        self._source = base_iterator
        self._steps = [*local_transforms]
        self._items: Iterator[Any] | None = None

    @staticmethod
    def get_metrics() -> MetricsContext:
        """Return the metrics of the iterator that calls this function.

        Raises:
            ValueError: If no iterator is under way in this thread.
        """
        found: MetricsContext | None = getattr(_running, "metrics", None)
        if found is None:
            raise ValueError(
                "metrics are there while an iterator runs a function, and not outside"
            )
        return found

    # -- iterating -----------------------------------------------------------------------------

    def __iter__(self) -> LocalIterator[T]:
        return self

    def __next__(self) -> T:
        if self._items is None:
            self._items = self.items(wait=True)
        item: T = next(self._items)
        return item

    def items(self, wait: bool) -> Iterator[Any]:
        """Yield the items anew; without waiting, `NOT_READY` where there is none yet."""
        items = self._source(wait)
        for step in self._steps:
            items = step(items)
        while True:
            before = getattr(_running, "metrics", None)
            _running.metrics = self.shared_metrics.get()
            try:
                item = next(items)
            except StopIteration:
                return
            finally:
                _running.metrics = before
            yield item

    def __repr__(self) -> str:
        return f"LocalIterator[{self.name}]"

    def take(self, n: int) -> list[T]:
        """Return up to `n` items."""
        return [item for _, item in zip(range(n), self, strict=False)]

    def show(self, n: int = 20) -> None:
        """Print up to `n` items."""
        for item in self.take(n):
            print(item)

    # -- steps ---------------------------------------------------------------------------------

    def _with(self, step: Step, name: str) -> LocalIterator[Any]:
        steps = [*self._steps, step]
        return LocalIterator(self._source, self.shared_metrics, steps, f"{self.name}{name}")

    def transform(self, fn: Callable[[Iterable[T]], Iterable[U]]) -> LocalIterator[U]:
        """Pass all items through a function of iterables."""
        return self._with(lambda items: iter(fn(items)), ".transform()")

    def for_each(
        self,
        fn: Callable[[T], U],
        max_concurrency: int = 1,
        resources: dict[str, Any] | None = None,
    ) -> LocalIterator[U]:
        """Call a function of each item.

        Args:
            fn: The function.
            max_concurrency: How many calls run at a time; more than one run as tasks, whose
                results come as they are ready. 0 for any number.
            resources: Options of these tasks, as `num_cpus`.
        """
        if max_concurrency == 1:
            return self._with(lambda items: map(_except_unready(fn), items), ".for_each()")
        # A function of ours around it: `fn` may be a class, or anything else that can be called.
        task = skate.remote(lambda item: fn(item)).options(**(resources or {}))
        step: Step = lambda items: _as_tasks(items, task, max_concurrency)  # noqa: E731
        return self._with(step, ".for_each()")

    def filter(self, fn: Callable[[T], bool]) -> LocalIterator[T]:
        """Keep the items for which a function returns something true."""
        return self._with(
            lambda items: (item for item in items if item is NOT_READY or fn(item)), ".filter()"
        )

    def batch(self, n: int) -> LocalIterator[list[T]]:
        """Put items into lists of `n`, the last one shorter."""
        return self._with(lambda items: _batches(items, n), f".batch({n})")

    def flatten(self: LocalIterator[list[U]]) -> LocalIterator[U]:
        """Take the items out of lists."""
        return self._with(_flat, ".flatten()")

    def combine(self, fn: Callable[[T], list[U]]) -> LocalIterator[U]:
        """Call a function of each item, and take what it returns out of its lists."""
        found = self.for_each(fn).flatten()
        found.name = f"{self.name}.combine()"
        return found

    def shuffle(self, shuffle_buffer_size: int, seed: int | None = None) -> LocalIterator[T]:
        """Change the order, within a buffer of that many items.

        Args:
            shuffle_buffer_size: How many items are held back.
            seed: Makes the order the same each time.
        """
        return self._with(
            lambda items: _shuffled(items, shuffle_buffer_size, seed),
            f".shuffle(shuffle_buffer_size={shuffle_buffer_size}, seed={seed})",
        )

    def zip_with_source_actor(self) -> LocalIterator[tuple[Any, T]]:
        """Make pairs: the actor that an item comes from, and the item; after `gather_async`."""

        def pair(item: T) -> tuple[Any, T]:
            actor = LocalIterator.get_metrics().current_actor
            if actor is None:
                raise ValueError("the actor of an item is known behind gather_async() only")
            return actor, item

        found = self.for_each(pair)
        found.name = f"{self.name}.zip_with_source_actor()"
        return found

    # -- several -------------------------------------------------------------------------------

    def duplicate(self, n: int) -> list[LocalIterator[T]]:
        """Return `n` iterators over the same items, each of which is taken once."""
        if n < 2:
            raise ValueError(f"duplicate() takes 2 at the least; got {n}")
        copies = _Copies(self, n)
        return [
            LocalIterator(copies.of(index), SharedMetrics(), [], f"{self.name}.duplicate[{index}]")
            for index in range(n)
        ]

    def union(
        self,
        *others: LocalIterator[Any],
        deterministic: bool = False,
        round_robin_weights: Sequence[float | str] | None = None,
    ) -> LocalIterator[Any]:
        """Iterate over the items of several.

        Args:
            others: The other ones.
            deterministic: Whether they take turns; otherwise what is ready comes first.
            round_robin_weights: How many items each gives in its turn; "*" for all that are ready.

        Raises:
            ValueError: If one is no LocalIterator, or weights are too few or many.
        """
        for other in others:
            if not isinstance(other, LocalIterator):
                raise ValueError(
                    f"union() takes iterators of the kind LocalIterator; got {other!r}"
                )
        members: list[LocalIterator[Any]] = [self, *others]
        weights = round_robin_weights or [1] * len(members)
        if len(weights) != len(members):
            raise ValueError(f"union() takes a weight for each of {len(members)}; got {weights}")
        shared = SharedMetrics()
        for member in members:
            member.shared_metrics.join(shared)
        name = f"LocalUnion[{', '.join(map(repr, members))}]"
        return LocalIterator(lambda wait: _united(members, weights, deterministic, wait), shared,
                             [], name)  # fmt: skip


def _except_unready(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    return lambda item: item if item is NOT_READY else function(item)


def _as_tasks(items: Iterator[Any], task: Any, most: int) -> Iterator[Any]:
    """Yield the results of calls that run beside each other, as they are ready."""
    under_way: list[Any] = []
    for item in items:
        if item is NOT_READY:
            yield item
            continue
        under_way.append(task.remote(item))
        if 0 < most <= len(under_way):
            (ready, *_), under_way = skate.wait(under_way)
            yield skate.get(ready)
    while under_way:
        (ready, *_), under_way = skate.wait(under_way)
        yield skate.get(ready)


def _batches(items: Iterator[Any], size: int) -> Iterator[Any]:
    batch: list[Any] = []
    for item in items:
        if item is NOT_READY:
            yield item
            continue
        batch.append(item)
        if len(batch) >= size:
            yield batch
            batch = []
    if batch:
        yield batch


def _flat(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        if item is NOT_READY:
            yield item
        else:
            yield from item


def _shuffled(items: Iterator[Any], size: int, seed: int | None) -> Iterator[Any]:
    chance = random.Random(seed)
    held: list[Any] = []
    for item in items:
        if item is NOT_READY:
            yield item
            continue
        held.append(item)
        if len(held) >= size:
            yield held.pop(chance.randrange(len(held)))
    while held:
        yield held.pop(chance.randrange(len(held)))


class _Copies:
    """Hands out what one iterator gives to several. Who need not wait lets the others catch up,
    for some rounds: it may be that nobody reads them."""

    def __init__(self, iterator: LocalIterator[Any], count: int) -> None:
        self._iterator = iterator
        self._items: Iterator[Any] | None = None
        self._queues: list[deque[Any]] = [deque() for _ in range(count)]

    def of(self, index: int) -> Source:
        return lambda wait: self._copy(index, wait)

    def _copy(self, index: int, wait: bool) -> Iterator[Any]:
        queue = self._queues[index]
        rounds = 0
        while True:
            if not queue and not wait and rounds < _ROUNDS and any(self._queues):
                rounds += 1
                yield NOT_READY
                continue
            if not queue and not self._fill():
                return
            rounds = 0
            yield queue.popleft()

    def _fill(self) -> bool:
        """Wait for the next item; whether there is one."""
        if self._items is None:
            self._items = self._iterator.items(wait=True)
        for item in self._items:
            for queue in self._queues:
                queue.append(item)
            return True
        return False


def _united(
    members: Sequence[LocalIterator[Any]],
    weights: Sequence[float | str],
    in_turn: bool,
    wait: bool,
) -> Iterator[Any]:
    left = [
        (member.items(wait=in_turn), 2**62 if weight == "*" else int(weight))
        for member, weight in zip(members, weights, strict=True)
    ]
    while left:
        found = False
        for pair in tuple(left):
            items, most = pair
            for _ in range(most):
                item = next(items, _END)
                if item is _END:
                    left.remove(pair)
                    break
                if item is NOT_READY:
                    break
                found = True
                yield item
        if left and not found:
            if wait:
                time.sleep(_PAUSE_SECONDS)
            else:
                yield NOT_READY


_END = object()
