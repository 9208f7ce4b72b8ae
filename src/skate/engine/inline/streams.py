"""Streaming generators. An item is computed when someone asks for it, so that endless generators
and breakpoints in them work; items of async generators come from the actor's own thread."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from skate._core.serialization import dumps
from skate.exceptions import SkateError, TaskCancelledError, TaskError

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.inline.objects import Objects


def _as_is(function: Callable[[], object]) -> object:
    return function()


class InlineStream:
    """The items of one streaming task so far, and how to get the next."""

    def __init__(self, objects: Objects, ref: ObjectRef[object]) -> None:
        self._objects = objects
        self._ref = weakref.ref(ref)  # which owns this stream
        self._items: list[ObjectRef[Any] | None] = []
        self._ended = False
        self._lock = threading.RLock()  # one thread at a time runs the generator
        self._iterator: Iterator[Any] | None = None
        self._step: Callable[[Callable[[], Any]], Any] = _as_is
        self._failed: Callable[[BaseException], SkateError] | None = None
        self._callbacks: list[tuple[int, Callable[[], None]]] = []

    def pull_from(
        self,
        iterator: Iterator[object],
        step: Callable[[Callable[[], object]], object],
        failed: Callable[[BaseException], SkateError],
    ) -> None:
        """Compute items on demand; `step` runs code in the task's surroundings."""
        self._step, self._failed = step, failed
        self._iterator = iterator
        if self._callbacks:
            self.ready(max(index for index, _ in self._callbacks))

    # -- producing -----------------------------------------------------------------------------

    def push(self, value: object) -> None:
        """Add an item. Raises TypeError for what cannot be serialised."""
        serialized = dumps(value, "item")
        ref = self._objects.new()
        self._objects.store(ref, serialized)
        self._add(ref)

    def end(self, error: SkateError | None = None) -> None:
        """Note that there are no more items; an error is the last of them."""
        if self._ended:
            return
        self._iterator, self._step, self._failed = None, _as_is, None
        last = self._objects.new()
        owner = self._ref() or last
        if error is not None:
            self._objects.fail(last, error)
            self._items.append(last)
        if error is None or _is_told_by_items(error):
            self._objects.store(owner, dumps(None))
        else:
            self._objects.fail(owner, error)
        with self._objects.changed:
            self._ended = True
            self._objects.changed.notify_all()
        self._call_back()

    def _add(self, ref: ObjectRef[object]) -> None:
        with self._objects.changed:
            self._items.append(ref)
            self._objects.changed.notify_all()
        self._call_back()

    def _call_back(self) -> None:
        with self._objects.changed:  # others add to the list meanwhile
            due = [entry for entry in self._callbacks if self._has(entry[0])]
            self._callbacks = [entry for entry in self._callbacks if entry not in due]
        for _, callback in due:
            callback()

    def _advance(self) -> None:
        """Run the generator to its next item."""
        with self._lock:
            iterator = self._iterator
            if iterator is None:
                return
            try:
                self.push(self._step(lambda: next(iterator)))
            except StopIteration:
                self.end()
            except KeyboardInterrupt:
                self.end(TaskCancelledError(error_message="interrupted"))
                raise
            except BaseException as error:
                assert self._failed is not None
                self.end(self._failed(error))

    # -- consuming -----------------------------------------------------------------------------

    def _has(self, index: int) -> bool:
        return self._ended or index < len(self._items)

    def ready(self, index: int) -> bool:
        while self._iterator is not None and not self._has(index):
            self._advance()
        return self._has(index)

    def take(self, index: int, timeout: float | None) -> tuple[bool, ObjectRef[object] | None]:
        """Return whether an item is there in time, and the item, or None for the end."""
        if not self.ready(index) and not self._objects.wait_for(lambda: self._has(index), timeout):
            return False, None
        if index >= len(self._items):
            return True, None
        ref, self._items[index] = self._items[index], None
        return True, ref

    def finished(self, index: int) -> bool:
        self.ready(index)
        return self._ended and index >= len(self._items)

    def drain(self) -> None:
        """Run the task to its end."""
        while self._iterator is not None:
            self._advance()

    def drained(self) -> list[ObjectRef[object]]:
        """Return all items of a task that is run to its end."""
        self.drain()
        return [ref for ref in self._items if ref is not None]

    def close(self) -> None:
        with self._lock:
            close = getattr(self._iterator, "close", None)
            self._iterator = None
            if close is not None:
                self._step(close)
        self.end()
        self._items = [None] * len(self._items)

    def cancel(self) -> None:
        """Stop the task; what it has not produced is a TaskCancelledError."""
        self.end(TaskCancelledError())

    def abandon(self) -> None:
        """Do as `close`, from a destructor: the generator goes with its last reference."""
        self._iterator, self._step, self._failed, self._items = None, _as_is, None, []
        self._ended = True

    def when_ready(self, index: int, callback: Callable[[], None]) -> None:
        if self.ready(index):
            callback()
            return
        with self._objects.changed:
            self._callbacks.append((index, callback))
        self._call_back()


def _is_told_by_items(error: SkateError) -> bool:
    """Return whether the last item is that error, and the end of the stream none."""
    return isinstance(error, TaskError) and not isinstance(error, TaskCancelledError)
