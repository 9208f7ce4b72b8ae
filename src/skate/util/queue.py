"""A first-in, first-out queue that tasks and actors share."""

from __future__ import annotations

import queue
from collections.abc import Iterable
from numbers import Integral
from typing import TYPE_CHECKING, Any, Generic

import skate
from skate._core.argument_checks import seconds, wrong_type

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    T = TypeVar("T", default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")


class Empty(queue.Empty):
    """There was nothing to take."""


class Full(queue.Full):
    """There was no room."""


class Queue(Generic[T]):
    """Share a queue that lives in an actor; send it anywhere, all copies are the same queue.

    Args:
        maxsize: How many items it holds at the most; 0 means without limit.
        actor_options: Options of the actor, for example `{"name": "jobs", "num_cpus": 1}`.

    Example:
        >>> from skate.util.queue import Queue
        >>> queue = Queue(maxsize=10)
        >>> queue.put("first")
        >>> queue.get()
        'first'
        >>> queue.shutdown()
    """

    def __init__(self, maxsize: int = 0, actor_options: dict[str, object] | None = None) -> None:
        if not isinstance(maxsize, Integral):
            raise wrong_type("maxsize", maxsize, "a whole number, 0 for no limit")
        self.maxsize: int = maxsize
        actor_class: Any = skate.remote(_QueueActor)
        self.actor: Any = actor_class.options(**(actor_options or {})).remote(maxsize)

    @property
    def _running(self) -> Any:
        if self.actor is None:
            raise RuntimeError("this queue was shut down by shutdown(); make a new one")
        return self.actor

    def __len__(self) -> int:
        return self.size()

    def size(self) -> int:
        """Return how many items are in the queue."""
        count: int = skate.get(self._running.qsize.remote())
        return count

    def qsize(self) -> int:
        """Return how many items are in the queue."""
        return self.size()

    def empty(self) -> bool:
        """Return whether there is nothing in the queue."""
        answer: bool = skate.get(self._running.empty.remote())
        return answer

    def full(self) -> bool:
        """Return whether the queue has `maxsize` items."""
        answer: bool = skate.get(self._running.full.remote())
        return answer

    def put(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item, when there is room.

        Args:
            item: The item; anything that can be pickled.
            block: Whether to wait for room.
            timeout: Seconds to wait at the most; None waits for ever.

        Raises:
            Full: If there is no room by then.

        Example:
            >>> from skate.util.queue import Full, Queue
            >>> queue = Queue(maxsize=1)
            >>> queue.put("first")
            >>> try:
            ...     queue.put("second", block=False)
            ... except Full:
            ...     print("full")
            full
        """
        _raise_if_full(skate.get(self._put(item, block, timeout)))

    async def put_async(self, item: T, block: bool = True, timeout: float | None = None) -> None:
        """Add an item, when there is room, as `put` does, for async code.

        Args:
            item: The item; anything that can be pickled.
            block: Whether to wait for room.
            timeout: Seconds to wait at the most; None waits for ever.

        Raises:
            Full: If there is no room by then.
        """
        _raise_if_full(await self._put(item, block, timeout))

    def get(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the oldest item, when there is one.

        Args:
            block: Whether to wait for an item.
            timeout: Seconds to wait at the most; None waits for ever.

        Raises:
            Empty: If there is none by then.

        Example:
            >>> from skate.util.queue import Empty, Queue
            >>> try:
            ...     Queue().get(block=False)
            ... except Empty:
            ...     print("empty")
            empty
        """
        items: list[T] = _items(skate.get(self._get(block, timeout)))
        return items[0]

    async def get_async(self, block: bool = True, timeout: float | None = None) -> T:
        """Take the oldest item, when there is one, as `get` does, for async code.

        Args:
            block: Whether to wait for an item.
            timeout: Seconds to wait at the most; None waits for ever.

        Raises:
            Empty: If there is none by then.
        """
        items: list[T] = _items(await self._get(block, timeout))
        return items[0]

    def _put(self, item: T, block: bool, timeout: float | None) -> Any:
        if not block:
            return self._running.offer_all.remote([item])
        return self._running.offer.remote(item, seconds("timeout", timeout))

    def _get(self, block: bool, timeout: float | None) -> Any:
        if not block:
            return self._running.take_all.remote(1)
        return self._running.take.remote(seconds("timeout", timeout))

    def put_nowait(self, item: T) -> None:
        """Add an item if there is room now.

        Args:
            item: The item.

        Raises:
            Full: If there is no room.
        """
        self.put(item, block=False)

    def put_nowait_batch(self, items: Iterable[T]) -> None:
        """Add all items in order, or none.

        Args:
            items: The items.

        Raises:
            Full: If they do not all fit now.

        Example:
            >>> from skate.util.queue import Queue
            >>> queue = Queue()
            >>> queue.put_nowait_batch([1, 2, 3])
            >>> queue.get_nowait_batch(2)
            [1, 2]
        """
        if not isinstance(items, Iterable):
            raise TypeError(f"items must be iterable; got {items!r}")
        _raise_if_full(skate.get(self._running.offer_all.remote(list(items))))

    def get_nowait(self) -> T:
        """Take the oldest item if there is one now.

        Raises:
            Empty: If there is none.
        """
        return self.get(block=False)

    def get_nowait_batch(self, num_items: int) -> list[T]:
        """Take the oldest items, or none.

        Args:
            num_items: How many.

        Raises:
            Empty: If there are fewer now.
        """
        if not isinstance(num_items, int):
            raise TypeError(f"num_items must be an int; got {num_items!r}")
        if num_items < 0:
            raise ValueError(f"num_items must not be negative; got {num_items}")
        return _items(skate.get(self._running.take_all.remote(num_items)))

    def shutdown(self, force: bool = False, grace_period_s: float = 5) -> None:
        """End the queue's actor.

        Args:
            force: Whether calls that were made before fail at once, and are not answered first.
            grace_period_s: Seconds that they have to be answered.
        """
        if self.actor is None:
            return
        if not force:
            ended = self.actor.__ray_terminate__.remote()
            skate.wait([ended], timeout=grace_period_s)
        skate.kill(self.actor, no_restart=True)
        self.actor = None


def _raise_if_full(refusal: str | None) -> None:
    if refusal is not None:
        raise Full(refusal)


def _items(answer: list[object] | str) -> list[Any]:
    if isinstance(answer, str):
        raise Empty(answer)
    return answer


class _QueueActor:
    """All methods are async, so that waiting ones and the others run beside each other.

    An empty or full queue is an everyday answer and no error to `Queue`: it is answered in words,
    and the caller raises. `put`, `get` and the like are for programs that call the actor itself,
    as `queue.actor.get.remote()`: they answer with the item, or raise.
    """

    def __init__(self, maxsize: int) -> None:
        import asyncio

        self._queue: asyncio.Queue[Any] = asyncio.Queue(maxsize)

    def waits_because(self, method: str) -> str | None:
        limit = self._queue.maxsize
        if method == "offer":
            return f"the queue is full, all {limit} places are taken, and nobody takes an item"
        return "the queue is empty, and nobody puts an item" if method == "take" else None

    async def qsize(self) -> int:
        return self._queue.qsize()

    async def empty(self) -> bool:
        return self._queue.empty()

    async def full(self) -> bool:
        return self._queue.full()

    async def offer(self, item: object, timeout: float | None) -> str | None:
        import asyncio

        try:
            await asyncio.wait_for(self._queue.put(item), timeout)
        except asyncio.TimeoutError:
            return f"no room within {timeout} s; all {self._queue.maxsize} places are taken"
        return None

    async def take(self, timeout: float | None) -> list[Any] | str:
        import asyncio

        try:
            return [await asyncio.wait_for(self._queue.get(), timeout)]
        except asyncio.TimeoutError:
            return f"nothing came within {timeout} s"

    async def offer_all(self, items: list[Any]) -> str | None:
        size, limit = self._queue.qsize(), self._queue.maxsize
        if 0 < limit < size + len(items):
            return f"no room for {len(items)}: {size} of {limit} places are taken"
        for item in items:
            self._queue.put_nowait(item)
        return None

    async def take_all(self, count: int) -> list[Any] | str:
        size = self._queue.qsize()
        if count > size:
            return f"{count} wanted, {size} there"
        return [self._queue.get_nowait() for _ in range(count)]

    async def put(self, item: object, timeout: float | None = None) -> None:
        _raise_if_full(await self.offer(item, timeout))

    async def put_nowait(self, item: object) -> None:
        await self.put_nowait_batch([item])

    async def put_nowait_batch(self, items: list[Any]) -> None:
        _raise_if_full(await self.offer_all(items))

    async def get(self, timeout: float | None = None) -> Any:
        return _items(await self.take(timeout))[0]

    async def get_nowait(self) -> Any:
        return (await self.get_nowait_batch(1))[0]

    async def get_nowait_batch(self, count: int) -> list[Any]:
        return _items(await self.take_all(count))
