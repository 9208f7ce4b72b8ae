"""Values and their references. Python's own reference counting frees them: an entry belongs to
its reference, and holds the references that occur inside its value."""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from copy import copy as shallow_copy
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from skate._core.errors import user_traceback
from skate._core.refs import ObjectRef
from skate._core.serialization import Serialized, dumps, loads
from skate._core.unread_errors import Failure, UnreadErrors, failure_of
from skate.exceptions import (
    GetTimeoutError,
    ObjectLostError,
    SkateError,
    StaleReferenceError,
    TaskError,
)

if TYPE_CHECKING:
    from skate.engine.base import Engine
    from skate.engine.inline.actors import InlineActor
    from skate.engine.inline.resources import InlineGroup
    from skate.engine.inline.streams import InlineStream

_ids = itertools.count(1)  # of all sessions: a reference must mean nothing to the next one


class Entry:
    """The value of one reference, once it is there: packed bytes or an error."""

    __slots__ = (
        "actor",
        "by_actor",
        "callbacks",
        "cancel",
        "done",
        "error",
        "failure",
        "group",
        "packed",
        "refs",
        "stream",
    )

    def __init__(self) -> None:
        self.done: bool = False
        self.by_actor: bool = False  # whether it is the result of an actor call
        self.packed: Any = None
        self.refs: list[ObjectRef[Any]] = []
        self.error: SkateError | None = None
        self.failure: Failure | None = None  # to be shown unless somebody reads it
        self.callbacks: list[Callable[[], None]] = []
        self.cancel: Callable[[], None] | None = None
        self.actor: InlineActor | None = None
        self.stream: InlineStream | None = None
        self.group: InlineGroup | None = None

    def told(self) -> None:
        """Note that somebody is told the error, if there is one."""
        if self.failure is not None:
            self.failure.read = True


class Objects:
    """All references of a session. Also their `Home`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        # Notified whenever an entry is done.
        self.changed: threading.Condition = threading.Condition()
        self._refs: WeakValueDictionary[int, ObjectRef[Any]] = WeakValueDictionary()
        self._pinned: set[ObjectRef[Any]] = set()
        self.closed: bool = False
        self._unread = UnreadErrors()
        self.failures: int = 0  # objects that have an error, so far

    # -- references ----------------------------------------------------------------------------

    def new(self) -> ObjectRef[object]:
        ref: ObjectRef[Any] = ObjectRef(next(_ids), self, Entry())
        self._refs[ref._id] = ref
        return ref

    def adopt(self, id: int) -> ObjectRef[object]:
        ref = self._refs.get(id)
        if ref is None:
            raise gone(f"{id:056x}")
        return ref

    def pin(self, ref: ObjectRef[object]) -> None:
        self._pinned.add(ref)

    def _ref_gone(self, failure: Failure) -> None:
        if not failure.read and not self.closed:
            self._unread.add(failure)

    def close(self) -> None:
        with self.changed:
            self.closed = True
            self.changed.notify_all()
        self._pinned.clear()
        for ref in list(self._refs.values()):
            failure = ref._entry.failure
            if failure is not None and not failure.read:
                self._unread.add(failure)
        self._unread.close()

    def entry(self, ref: ObjectRef[object]) -> Entry:
        if ref._home is not self:
            raise StaleReferenceError(ref.hex())
        entry: Entry = ref._entry
        return entry

    def stream(self, generator: ObjectRef[object]) -> InlineStream:
        stream = self.entry(generator).stream
        assert stream is not None
        return stream

    # -- values --------------------------------------------------------------------------------

    def store(self, ref: ObjectRef[object], serialized: Serialized) -> None:
        ref._entry.packed, ref._entry.refs = serialized.packed(), serialized.refs
        self._finish(ref._entry)

    def fail(self, ref: ObjectRef[object], error: SkateError) -> None:
        if not ref._entry.done:
            ref._entry.error = error
            failure = ref._entry.failure = failure_of(error)
            if failure is not None:  # also at the end of the program
                weakref.finalize(ref, self._ref_gone, failure)
            self._finish(ref._entry)

    def fail_from_now_on(self, ref: ObjectRef[object], error: SkateError) -> None:
        """Make an event, whether it has happened or not, an error for whoever asks later."""
        if ref._entry.done:
            ref._entry.error = error
        else:
            self.fail(ref, error)

    def _finish(self, entry: Entry) -> None:
        with self.changed:
            entry.done, entry.cancel = True, None
            self.failures += entry.error is not None
            callbacks, entry.callbacks = entry.callbacks, []
            self.changed.notify_all()
        for callback in callbacks:
            callback()

    def ready(self, ref: ObjectRef[object]) -> bool:
        """Return whether the value is there; a generator is run to its end for that."""
        entry = self.entry(ref)
        if not entry.done and entry.stream is not None:
            entry.stream.drain()
        return entry.done

    def when_done(self, ref: ObjectRef[object], callback: Callable[[], None]) -> None:
        self.ready(ref)
        with self.changed:
            if not ref._entry.done:
                ref._entry.callbacks.append(callback)
                return
        callback()

    def get(
        self, refs: Sequence[ObjectRef[object]], timeout: float | None, copy: bool
    ) -> list[Any]:
        """Return the values, or raise the first error among them, as `Engine.get` promises."""
        pending = [ref for ref in refs if not self.ready(ref)]
        if pending:
            self.wait_for(self._all_done_or_one_failed(pending, refs), timeout)
        for ref in refs:
            if ref._entry.error is not None:
                for asked in refs:
                    asked._entry.told()  # one error stands for all that were asked for
                raise _raised(ref._entry.error)
        missing = [ref for ref in pending if not ref._entry.done]
        if missing and self.closed:
            raise gone(missing[0].hex())
        if missing:
            late = f"{len(missing)} of {len(refs)} values not there after {timeout} s"
            raise GetTimeoutError(late)
        return [self.value(ref, copy) for ref in refs]

    def _all_done_or_one_failed(
        self, pending: Sequence[ObjectRef[object]], refs: Sequence[ObjectRef[object]]
    ) -> Callable[[], bool]:
        """Make a condition that is cheap to ask each time that any object is done: it looks again
        at none of `pending` that was, and for errors among `refs` only where there are new ones.
        """
        left = list(reversed(pending))
        failures = -1

        def holds() -> bool:
            nonlocal failures
            if failures != self.failures:
                failures = self.failures
                if any(ref._entry.error is not None for ref in refs):
                    return True
            while left and left[-1]._entry.done:
                left.pop()
            return not left

        return holds

    def wait(
        self, refs: Sequence[ObjectRef[object]], num_returns: int, timeout: float | None
    ) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
        """Return the references that are ready, at most `num_returns`, and the others."""
        if sum(self.ready(ref) for ref in refs) < num_returns:
            self.wait_for(lambda: sum(ref._entry.done for ref in refs) >= num_returns, timeout)
        ready: list[ObjectRef[Any]] = []
        others: list[ObjectRef[Any]] = []
        for ref in refs:
            (ready if ref._entry.done and len(ready) < num_returns else others).append(ref)
        return ready, others

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: self.closed or predicate(), timeout)

    def value(self, ref: ObjectRef[object], copy: bool = False) -> Any:
        """Return the value of a reference that is done; raises its error."""
        entry = self.entry(ref)
        if entry.error is not None:
            entry.told()
            raise entry.error
        return loads(entry.packed, copy)

    def put(self, value: object) -> ObjectRef[Any]:
        serialized = dumps(value)
        ref = self.new()
        self.store(ref, serialized)
        return ref


def _raised(error: SkateError) -> BaseException:
    """Return the error to raise; its traceback leads a debugger to the line in the task."""
    if not isinstance(error, TaskError):
        return shallow_copy(error)
    return error.as_instanceof_cause().with_traceback(user_traceback(error.cause))


def gone(hex_id: str) -> ObjectLostError:
    """Return the error for an object that is not, or no longer, of the session."""
    error = ObjectLostError(hex_id)
    error.reason = "it was freed, or belongs to a session that was ended by shutdown()"
    return error
