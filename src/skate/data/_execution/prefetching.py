"""Work ahead of a consumer, in a thread: up to so many items, or so much of whatever they weigh.

    the plan ──► a thread ──► Shelf ──► consumer

The thread waits while the shelf is full, the consumer while it is empty.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from skate.data._execution.early_exit import Cancellation, close_early

Item = TypeVar("Item")


class Shelf:
    """Items that wait for a consumer, who may go.

    Args:
        most: How much they may weigh together; one item fits in any case.
    """

    def __init__(self, most: float) -> None:
        self._most = most
        self._items: deque[tuple[Any, float]] = deque()
        self._weight = 0.0
        self._ended = self._left = False
        self._error: BaseException | None = None
        self._changed = threading.Condition()

    def put(self, item: object, weight: float) -> bool:
        """Wait until there is room. False: nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: self._left or self._has_room(weight))
            if not self._left:
                self._items.append((item, weight))
                self._weight += weight
                self._changed.notify_all()
            return not self._left

    def _has_room(self, weight: float) -> bool:
        return not self._items or self._weight + weight <= self._most

    def end(self, error: BaseException | None = None) -> None:
        """Say that nothing more will come, or that the `error` does."""
        with self._changed:
            self._ended, self._error = True, error
            self._changed.notify_all()

    def leave(self) -> None:
        """Say that the consumer has gone, and drop what waits for it."""
        with self._changed:
            self._left = True
            self._items.clear()
            self._changed.notify_all()

    def items(self) -> Iterator[Any]:
        """Yield all of them as they come."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._items or self._ended or self._left)
                if not self._items:
                    break
                item, weight = self._items.popleft()
                self._weight -= weight
                self._changed.notify_all()
            yield item
        if self._error is not None:
            raise self._error


def prefetched(
    items: Iterator[Item], most: float, weight: Callable[[Item], float] = lambda _: 1
) -> Iterator[Item]:
    """Yield the items, which a thread computes ahead.

    Args:
        items: What is computed.
        most: How much may wait for whoever reads this; one item in any case.
        weight: How much of that an item is.
    """
    shelf = Shelf(most)
    cancellation = Cancellation()

    def leave() -> None:
        shelf.leave()
        cancellation.declare()

    def work() -> None:
        cancellation.concerns_this_thread()
        try:
            for item in items:
                if not shelf.put(item, weight(item)):
                    break
            shelf.end()
        except BaseException as error:
            shelf.end(error)
        finally:
            close_early(items)

    Cancellation.of_consumer().then(leave)  # who works ahead for another goes with that one
    thread = threading.Thread(target=work, name="skate-prefetch", daemon=True)
    thread.start()
    try:
        yield from shelf.items()
        thread.join()
    finally:
        if thread.is_alive():
            leave()
