"""The actor of a shard: it makes the items, and hands them out to whoever iterates."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from skate.util._iterator_shards import Repartitioned, Transform
from skate.util._local_iterator import LocalIterator
from skate.util.iter_metrics import SharedMetrics


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
        if isinstance(self._generator, Repartitioned):
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
        """Return whether somebody is in the middle of it; others would find the items anew."""
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
