"""A fixed set of actors that share a stream of work."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from typing import Any, Generic, TypeVar, overload

import skate
from skate._core.argument_checks import wrong_type

A = TypeVar("A")
R = TypeVar("R")
V = TypeVar("V")


class ActorPool(Generic[A]):
    """Hand each value to an idle actor and keep the results.

    The functions given to it take an actor and a value and return the reference of a call. The
    underscored attributes are what subclasses build on: a task index for every call that has been
    made, and a queue of (function, value) for those that wait for an actor.

    Args:
        actors: The actors that work, all idle.

    Example:
        >>> @skate.remote
        ... class Worker:
        ...     def double(self, value: int) -> int:
        ...         return 2 * value
        >>> pool = skate.util.ActorPool([Worker.remote(), Worker.remote()])
        >>> list(pool.map(lambda actor, value: actor.double.remote(value), [1, 2, 3]))
        [2, 4, 6]
    """

    def __init__(self, actors: Iterable[A]) -> None:
        self._idle_actors: list[A] = list(actors)
        self._future_to_actor: dict[Hashable, tuple[int, A]] = {}
        self._index_to_future: dict[int, Any] = {}
        self._next_task_index = 0
        self._next_return_index = 0
        self._pending_submits: list[tuple[Callable[[A, Any], Any], Any]] = []

    @overload
    def map(
        self, fn: Callable[[A, V], skate.ObjectRef[R]], values: Iterable[V]
    ) -> Iterator[R]: ...
    @overload
    def map(
        self, fn: Callable[[A, V], list[skate.ObjectRef[R]]], values: Iterable[V]
    ) -> Iterator[list[R]]: ...
    def map(self, fn: Callable[[A, V], object], values: Iterable[V]) -> Iterator[Any]:
        """Apply a function to all values; results of earlier calls are given up.

        Args:
            fn: Takes an actor and a value, and returns the reference of a call.
            values: One for each call.

        Returns:
            An iterator over the results, in the order of the values.

        Example:
            >>> @skate.remote
            ... class Squarer:
            ...     def square(self, value: int) -> int:
            ...         return value * value
            >>> pool = skate.util.ActorPool([Squarer.remote()])
            >>> list(pool.map(lambda actor, value: actor.square.remote(value), [1, 2, 3]))
            [1, 4, 9]
        """
        self._forget(self.get_next)
        return self._results(fn, values, self.get_next)

    @overload
    def map_unordered(
        self, fn: Callable[[A, V], skate.ObjectRef[R]], values: Iterable[V]
    ) -> Iterator[R]: ...
    @overload
    def map_unordered(
        self, fn: Callable[[A, V], list[skate.ObjectRef[R]]], values: Iterable[V]
    ) -> Iterator[list[R]]: ...
    def map_unordered(self, fn: Callable[[A, V], object], values: Iterable[V]) -> Iterator[Any]:
        """Apply a function to all values, as `map` does, with results as soon as they are there.

        Args:
            fn: Takes an actor and a value, and returns the reference of a call.
            values: One for each call.

        Returns:
            An iterator over the results, in no order.

        Example:
            >>> @skate.remote
            ... class Negator:
            ...     def negate(self, value: int) -> int:
            ...         return -value
            >>> pool = skate.util.ActorPool([Negator.remote()])
            >>> sorted(pool.map_unordered(lambda actor, value: actor.negate.remote(value), [1, 2]))
            [-2, -1]
        """
        self._forget(self.get_next_unordered)
        return self._results(fn, values, self.get_next_unordered)

    def _forget(self, get_next: Callable[..., object]) -> None:
        while self.has_next():
            try:
                get_next(timeout=0, ignore_if_timedout=True)
            except TimeoutError:
                continue

    def _results(
        self, fn: Callable[[A, V], object], values: Iterable[V], get_next: Callable[..., object]
    ) -> Iterator[Any]:
        for value in values:
            self.submit(fn, value)

        def results() -> Iterator[Any]:
            while self.has_next():
                yield get_next()

        return results()

    def submit(self, fn: Callable[[A, V], object], value: V) -> None:
        """Call `fn(actor, value)` with an idle actor, or as soon as one is idle.

        Args:
            fn: Takes an actor and a value, and returns the reference of a call.
            value: What it is given.

        Raises:
            TypeError: If `fn` cannot be called.

        Example:
            >>> @skate.remote
            ... class Adder:
            ...     def add_one(self, value: int) -> int:
            ...         return value + 1
            >>> pool = skate.util.ActorPool([Adder.remote()])
            >>> pool.submit(lambda actor, value: actor.add_one.remote(value), 1)
            >>> pool.get_next()
            2
        """
        if not callable(fn):
            raise wrong_type("fn", fn, "a function of an actor and a value")
        if not self._idle_actors:
            self._pending_submits.append((fn, value))
            return
        actor = self._idle_actors.pop()
        try:
            future = fn(actor, value)
        except BaseException:
            self._idle_actors.append(actor)  # no call was made: it is as idle as before
            raise
        self._future_to_actor[_key(future)] = (self._next_task_index, actor)
        self._index_to_future[self._next_task_index] = future
        self._next_task_index += 1

    def has_next(self) -> bool:
        """Return whether there is a result that has not been returned."""
        return bool(self._future_to_actor)

    def get_next(self, timeout: float | None = None, ignore_if_timedout: bool = False) -> Any:
        """Return the next result in the order of submission.

        Args:
            timeout: Seconds to wait at the most; None waits for ever.
            ignore_if_timedout: Whether a result that is late is given up; if not, it stays the
                next one.

        Raises:
            TimeoutError: If `timeout` seconds have passed.
            StopIteration: If there is no result to wait for.
            ValueError: If `get_next_unordered` has been used for some of the results.
        """
        if not self.has_next():
            raise StopIteration("no more results")
        if self._next_return_index >= self._next_task_index:
            raise ValueError("get_next() cannot be used after get_next_unordered()")
        future = self._index_to_future[self._next_return_index]
        ready = timeout is None or _is_ready(future, timeout)
        return self._take(future, ready, ignore_if_timedout)

    def get_next_unordered(
        self, timeout: float | None = None, ignore_if_timedout: bool = False
    ) -> Any:
        """Return any result that is there, or the first to come.

        Args:
            timeout: Seconds to wait at the most; None waits for ever.
            ignore_if_timedout: Whether the call that was made first is given up if all are late.

        Raises:
            TimeoutError: If `timeout` seconds have passed.
            StopIteration: If there is no result to wait for.
        """
        if not self.has_next():
            raise StopIteration("no more results")
        futures = list(self._future_to_actor)
        by_ref = {_last(future): future for future in futures}
        ready, _ = skate.wait(list(by_ref), num_returns=1, timeout=timeout)
        future = by_ref[ready[0]] if ready else futures[0]
        return self._take(future, bool(ready), ignore_if_timedout)

    def _take(self, future: object, ready: bool, ignore_if_timedout: bool) -> Any:
        if not ready and not ignore_if_timedout:
            raise TimeoutError("no result within the timeout; it can still be asked for")
        index, actor = self._future_to_actor.pop(_key(future))
        future = self._index_to_future.pop(index)
        self._next_return_index = max(self._next_return_index, index + 1)
        if not ready:
            self._return_actor(actor)
            raise TimeoutError("no result within the timeout; it has been given up")
        return self._get_result(future, actor)

    def _get_result(self, future: Any, actor: A) -> Any:
        is_alive = True
        try:
            return skate.get(future)
        except skate.exceptions.ActorDiedError:
            is_alive = False
            raise
        finally:
            self._return_actor(actor, is_alive)

    def _return_actor(self, actor: A, is_alive: bool = True) -> None:
        if is_alive:
            self._idle_actors.append(actor)
        if self._pending_submits and self._idle_actors:
            self.submit(*self._pending_submits.pop(0))

    def has_free(self) -> bool:
        """Return whether an actor is idle and no work waits for one."""
        return bool(self._idle_actors) and not self._pending_submits

    def pop_idle(self) -> A | None:
        """Take an idle actor out of the pool.

        Returns:
            The actor; None if none is idle.
        """
        return self._idle_actors.pop() if self.has_free() else None

    def push(self, actor: A) -> None:
        """Add an actor to the pool.

        Args:
            actor: The actor, idle.

        Raises:
            ValueError: If it belongs to the pool already.
        """
        busy = [entry[1] for entry in self._future_to_actor.values()]
        if actor in self._idle_actors or actor in busy:
            raise ValueError(f"{actor} already belongs to this pool")
        self._return_actor(actor)


def _key(future: object) -> Hashable:
    """Return a key for a call; one with several values has a list, which cannot be a key."""
    return tuple(future) if isinstance(future, list) else future


def _last(future: object) -> Any:
    """Return the reference that stands for the whole call."""
    return future[-1] if isinstance(future, (list, tuple)) else future


def _is_ready(future: object, timeout: float) -> bool:
    ready, _ = skate.wait([_last(future)], num_returns=1, timeout=timeout)
    return bool(ready)
