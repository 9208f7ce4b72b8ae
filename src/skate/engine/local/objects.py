"""What one process knows of objects: the table behind `get`, `wait` and references.

The driver and every worker have one. In the driver it is *the* table of all objects, with counts;
in a worker it holds what the worker has met, and asks the driver for the rest (`_want`).

An `ObjectEntry` is pending until `complete` gives it a kind and data:

    INLINE   packed value, as it came in a message
    STORED   (segment name, size): laid out in shared memory or a file, see `store`
    FAILED   packed exception
"""

from __future__ import annotations

import itertools
import operator
import pickle
import threading
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate._core import serialization
from skate._core.errors import add_note
from skate._core.refs import ObjectRef, ObjectRefGenerator
from skate.engine.local.reactor import Reactor, Waiter
from skate.engine.local.store import SegmentMovedError, Store, parts_of

if TYPE_CHECKING:
    from skate.engine.local.hub.streams import ItemStream
    from skate.engine.local.hub.work import HubTask

INLINE, STORED, FAILED = 0, 1, 2
INLINE_LIMIT_BYTES = 100_000  # larger values go to shared memory
COPY, ON_WRITE = True, 2  # of arrays that can be written to: at once; when and where they are
DRIVER = 0  # the driver's process number

# An id is process << 64 | counter << 16 | index: a task's values have consecutive ids.
_PROCESS_SHIFT, _STEP = 64, 1 << 16


class ObjectEntry:
    """One object in this process. `kind` is None while the value is not there."""

    __slots__ = (
        "asked", "contained", "count", "data", "held", "id", "kind", "link", "mapped",
        "mapping", "read", "ref", "stream", "task", "waiters",
    )  # fmt: skip

    def __init__(self, id: int) -> None:
        self.id: int = id
        self.kind: int | None = None
        self.data: Any = None
        self.held: bool = False  # this process has a reference or a view
        self.ref: Callable[[], ObjectRef[Any] | None] = _gone  # weak
        self.mapped: int = 0  # live mappings of the segment in this process
        self.mapping: Callable[[], Any] = _gone  # weak; one that further reads may share
        self.waiters: list[Callable[[ObjectEntry], None]] | None = None
        self.read: bool = False  # somebody has been told the error that it is
        self.asked: bool = False  # worker: the driver has been asked for the value
        self.link: Any = None  # worker: the object is known here only, see `peers`
        self.count: int = 0  # driver: holds by processes, pending work and containing objects
        self.contained: Sequence[int] = ()  # driver: ids inside the value
        self.task: HubTask | None = None  # driver: the work that will produce it
        self.stream: ItemStream | None = None  # driver: items of a streaming task


class Needs(Waiter):
    """Waits for `missing` of the wanted entries, or for the first error among them."""

    __slots__ = ("fail_fast", "missing", "wanted")

    def __init__(self, wanted: set[ObjectEntry], missing: int, fail_fast: bool) -> None:
        super().__init__()
        self.wanted: set[ObjectEntry] = wanted
        self.missing: int = missing
        self.look: bool = missing == 1
        self.fail_fast: bool = fail_fast

    def completed(self, entry: ObjectEntry) -> None:
        self.missing -= 1
        if self.missing <= 0 or (self.fail_fast and entry.kind == FAILED):
            self.finish()


class EngineHome:
    """The session that references belong to; survives it, so that old references can say so."""

    def __init__(self, objects: ObjectTable) -> None:
        self.engine: Any = objects


class RefWatch(weakref.ref["ObjectRef[Any]"]):
    """A weak reference to an ObjectRef that knows its entry."""

    __slots__ = ("entry",)
    entry: ObjectEntry


class ObjectTable(ABC):
    """Mixin of both local engines: entries, references, `get`, `wait`, callbacks.

    `lock` guards all state. `dropped` collects entries from destructors, which may run anywhere,
    even inside a section that holds the lock; `collect` works them off.
    """

    reactor: Reactor
    store: Store

    def __init__(self, process: int) -> None:
        self.lock: threading.RLock = threading.RLock()
        self.process = process
        self.dropped: deque[ObjectEntry] = deque()
        self._closed_views: deque[ObjectEntry] = deque()
        self.home: EngineHome = EngineHome(self)
        self._gone_for_good = self._ref_gone  # bound once: a reference is made with every call
        self.entries: dict[int, ObjectEntry] = {}
        self._blocked: list[Needs] = []
        self.next_id: Callable[[], int] = (
            _numbers.__next__ if process == DRIVER else _ids_of(process)
        )

    # -- to be said by the engine --------------------------------------------------------------

    @abstractmethod
    def _want(self, entries: Iterable[ObjectEntry]) -> None:
        """Make sure that these pending entries will be completed some day."""

    @abstractmethod
    def _release(self, entry: ObjectEntry) -> None:
        """Let go of an entry that nothing in this process needs. The lock is held."""

    @abstractmethod
    def _hold(self, entry: ObjectEntry) -> None:
        """Hold an entry that came from elsewhere. The lock is held."""

    @abstractmethod
    def _watch_item(self, generator: ObjectRef[object], index: int) -> ObjectEntry:
        """Return a new entry that will be completed when item `index` of the stream is there."""

    def _while_blocked(self, needs: Needs, timeout: float | None) -> bool:
        """Wait; False on time-out. Workers give their CPUs back meanwhile."""
        return self.reactor.run_until(needs, timeout)

    @abstractmethod
    def _facts_in_time(
        self, wanted: Iterable[ObjectEntry], timeout: float | None
    ) -> list[dict[str, object]]:
        """Return why these are not there, of a wait whose time is over."""

    @abstractmethod
    def _refetch(self, entry: ObjectEntry) -> None:
        """Find out where a segment is now that was moved (it was spilled)."""

    @abstractmethod
    def _described(self, ref: ObjectRef[object]) -> str:
        """Return which value it is, in words: of which task, if that is known."""

    # -- references ----------------------------------------------------------------------------
    #
    # This process holds an object while it has the reference or a view on its segment. `_hold`
    # and `_release` tell the driver (or, in the driver, count) when that begins and ends.

    def new_ref(self, entry: ObjectEntry) -> ObjectRef[Any]:
        # Not by its constructor: that is one call more for every task, call and put.
        ref: ObjectRef[Any] = _bare(ObjectRef)
        ref._id, ref._home, ref._entry = entry.id, self.home, entry
        watch = RefWatch(ref, self._gone_for_good)
        watch.entry = entry
        entry.ref = watch
        return ref

    def _ref_gone(self, watch: Any) -> None:
        entry = watch.entry
        del watch.entry  # each has the other: only the garbage collector would find them
        self.dropped.append(entry)
        # Small values can wait until somebody passes by; memory, actors and work should go now.
        if entry.kind != INLINE or entry.task is not None:
            self.reactor.interrupt()

    def adopt(self, id: int) -> ObjectRef[Any]:
        with self.lock:
            entry = self.entries.get(id)
            if entry is None:
                entry = self.entries[id] = ObjectEntry(id)
            ref = entry.ref()
            if ref is None:
                ref = self.new_ref(entry)
                self._need(entry)
            return ref

    def _need(self, entry: ObjectEntry) -> None:
        if not entry.held:
            entry.held = True
            self._hold(entry)

    def collect(self) -> None:
        """Let go of what destructors have reported."""
        while self.dropped:
            with self.lock:
                self._count_closed_views()
                try:
                    entry = self.dropped.popleft()
                except IndexError:
                    return
                if entry.held and not entry.mapped and entry.ref() is None:
                    entry.held = False
                    self._release(entry)

    def entry_of(self, ref: ObjectRef[object]) -> ObjectEntry:
        if ref._home is not self.home:
            raise exceptions.StaleReferenceError(ref.hex())
        entry: ObjectEntry = ref._entry
        return entry

    def refuse_if_ended(self, ref: ObjectRef[object]) -> None:
        """Raise a StaleReferenceError where nothing comes any more: after the end of the session,
        and in a forked process, which has the engine of its parent (and locks in any state)."""
        if self.reactor.closed:
            raise exceptions.StaleReferenceError(ref.hex())

    # -- completion ----------------------------------------------------------------------------

    def complete(self, entry: ObjectEntry, kind: int, data: object) -> None:
        """Give a pending entry its value and tell everybody who waits. The lock is held."""
        entry.data = data
        entry.kind = kind
        if entry.waiters is not None:
            waiters, entry.waiters = entry.waiters, None
            for tell in waiters:
                tell(entry)
        for needs in self._blocked:
            if entry in needs.wanted:
                needs.completed(entry)

    def on_complete(self, entry: ObjectEntry, tell: Callable[[ObjectEntry], None]) -> None:
        """Call `tell` under the lock when the entry is complete. The lock is held."""
        if entry.kind is not None:
            tell(entry)
        elif entry.waiters is None:
            entry.waiters = [tell]
        else:
            entry.waiters.append(tell)

    def add_done_callback(self, ref: ObjectRef[object], callback: Callable[[], None]) -> None:
        entry = self.entry_of(ref)
        if entry.kind is None:
            self.refuse_if_ended(ref)
        with self.lock:
            if entry.kind is None:
                self.on_complete(entry, lambda _: self.reactor.after.append(callback))
                self._want([entry])
                self.reactor.flush()
                return
        callback()

    # -- waiting -------------------------------------------------------------------------------

    def get(
        self, refs: Sequence[ObjectRef[object]], timeout: float | None, copy: bool = False
    ) -> list[Any]:
        if len(refs) == 1:
            return [self._get_one(refs[0], timeout, copy)]
        entries = [self.entry_of(ref) for ref in refs]
        pending = {entry for entry in entries if entry.kind is None}
        if pending and FAILED not in map(_kind_of, entries):
            self._await(pending, len(pending), timeout, fail_fast=True)
        failed = next((entry for entry in entries if entry.kind == FAILED), None)
        if failed is not None:
            for entry in entries:
                entry.read = True  # one error stands for all that were asked for
            raise self.error_of(failed)
        missing = [entry for entry in entries if entry.kind is None]
        if missing:
            raise late(
                f"Get timed out: {len(missing)} of {len(entries)} objects were not ready after "
                f"{timeout} s",
                self._facts_in_time(missing, timeout),
            )
        try:
            values = [self.load(entry, copy) for entry in entries]
        except Exception as error:
            self._name_unreadable(error, refs, entries)
            raise
        if self.dropped:
            self.collect()
        return values

    def get_own(self, ref: ObjectRef[object]) -> Any:
        return self._get_one(ref, None, ON_WRITE)

    def _name_unreadable(
        self, error: Exception, refs: Sequence[ObjectRef[object]], entries: Sequence[ObjectEntry]
    ) -> None:
        """Note in an error which of several values could not be unpickled: the first again."""
        for ref, entry in zip(refs, entries, strict=True):
            try:
                self.load(entry)
            except Exception:
                add_note(error, f"while {self._described(ref)} was unpickled")
                return

    def _get_one(self, ref: ObjectRef[object], timeout: float | None, copy: int) -> Any:
        entry = self.entry_of(ref)
        if entry.kind is None:
            self._await({entry}, 1, timeout, fail_fast=True)
            if entry.kind is None:
                raise late(
                    f"Get timed out: {ref!r} was not ready after {timeout} s",
                    self._facts_in_time([entry], timeout),
                )
        try:
            value = self.load(entry, copy)
        except Exception as error:
            if entry.kind != FAILED:
                add_note(error, f"while {self._described(ref)} was unpickled")
            raise
        if self.dropped:
            self.collect()
        return value

    def wait(
        self, refs: Sequence[ObjectRef[object]], num_returns: int, timeout: float | None
    ) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
        positions = _first_ready(refs, num_returns)
        if len(positions) < num_returns:
            if set(map(_home_of, refs)) != {self.home}:
                self.entry_of(next(ref for ref in refs if ref._home is not self.home))  # raises
            self._await(set(map(_entry_of, refs)), num_returns, timeout, fail_fast=False)
            positions = _first_ready(refs, num_returns)
        ready = [refs[position] for position in positions]
        home = self.home
        for ref in ready:
            if ref._home is not home:
                self.entry_of(ref)  # raises
        rest = list(refs)
        for position in reversed(positions):
            del rest[position]
        return ready, rest

    def wait_mixed(
        self, waitables: Sequence[Any], num_returns: int, timeout: float | None
    ) -> tuple[list[Any], list[Any]]:
        entries = [
            self._next_item(waitable)
            if isinstance(waitable, ObjectRefGenerator)
            else self.entry_of(waitable)
            for waitable in waitables
        ]
        if sum(entry.kind is not None for entry in entries) < num_returns:
            self._await(set(entries), num_returns, timeout, fail_fast=False)
        ready: list[Any] = []
        rest: list[Any] = []
        for waitable, entry in zip(waitables, entries, strict=True):
            chosen = entry.kind is not None and len(ready) < num_returns
            (ready if chosen else rest).append(waitable)
        return ready, rest

    def _next_item(self, generator: ObjectRefGenerator[Any]) -> ObjectEntry:
        """Return an entry that is complete when the generator's next item is there. One per
        item, or else whoever polls would leave another one behind each time."""
        watched = generator._watched
        if watched is None or watched[0] != generator._index:
            self.entry_of(generator._generator_ref)
            entry = self._watch_item(generator._generator_ref, generator._index)
            generator._watched = watched = (generator._index, entry)
        return watched[1]

    def _await(
        self, wanted: set[ObjectEntry], missing: int, timeout: float | None, fail_fast: bool
    ) -> None:
        """Wait until `missing` of the wanted are there, counting those that are already."""
        needs = Needs(wanted, missing, fail_fast)
        with self.lock:
            self._want(wanted)
            for entry in wanted:
                if entry.kind is not None:
                    needs.completed(entry)
            if needs.done:
                return
            self._blocked.append(needs)
        try:
            self._while_blocked(needs, timeout)
        finally:
            with self.lock:
                self._blocked.remove(needs)

    def blocked(self) -> list[Needs]:
        """Return what the threads of this process wait for."""
        return list(self._blocked)

    def wanted(self) -> list[ObjectEntry]:
        """Return the objects that this process waits for. The lock is held."""
        return [entry for needs in self._blocked for entry in needs.wanted]

    # -- values --------------------------------------------------------------------------------

    def load(self, entry: ObjectEntry, copy: int = False, borrow: bool = False) -> Any:
        """Return the value of a complete entry. Views on it count as a hold, unless it is
        borrowed: then someone else sees to it that the object lives, until `keep_borrowed`."""
        while True:
            kind, data = entry.kind, entry.data
            if kind == INLINE:
                if type(data) is bytes:
                    return pickle.loads(data)
                if copy:
                    return serialization.loads(data, copy=True)
                entry.data = data = serialization.aligned(data)  # once for all who read it
                return pickle.loads(data[0], buffers=data[1:])
            if kind == FAILED:
                raise self.error_of(entry)
            on_write = copy == ON_WRITE
            try:
                mapping = (None if on_write else entry.mapping()) or self._map(entry, borrow)
            except SegmentMovedError:
                self._refetch(entry)
                continue
            tensors = serialization.tensors_rebuilt()
            value = serialization.loads(parts_of(mapping, on_write), copy == COPY)
            if on_write or serialization.tensors_rebuilt() != tensors:
                # Tensors can be written to: each read has its own copy-on-write mapping.
                entry.mapping = _gone
            return value

    def _map(self, entry: ObjectEntry, borrow: bool) -> Any:
        mapping = self.store.open(entry.data, lambda: self._unmapped(entry))
        with self.lock:
            entry.mapped += 1
            entry.mapping = weakref.ref(mapping)
            if not borrow:
                self._need(entry)
        return mapping

    def _unmapped(self, entry: ObjectEntry) -> None:
        self._closed_views.append(entry)
        self.dropped.append(entry)
        if entry.held:
            self.reactor.interrupt()

    def keep_borrowed(self, entries: Sequence[ObjectEntry]) -> None:
        """Hold what is still in use of what is about to be given back. The lock is held."""
        self._count_closed_views()
        for entry in entries:
            if entry.mapped:
                self._need(entry)
            elif not entry.held:
                self.entries.pop(entry.id, None)

    def _count_closed_views(self) -> None:
        while self._closed_views:
            self._closed_views.popleft().mapped -= 1

    def error_of(self, entry: ObjectEntry) -> BaseException:
        entry.read = True
        try:
            error: BaseException = serialization.loads(entry.data)
        except Exception as problem:
            return exceptions.UnserializableException(f"the error could not be read: {problem!r}")
        if isinstance(error, exceptions.TaskError):
            return error.as_instanceof_cause()
        return error


_bare = object.__new__
_entry_of: Callable[[ObjectRef[Any]], ObjectEntry] = operator.attrgetter("_entry")
_kind_of: Callable[[ObjectEntry], int | None] = operator.attrgetter("kind")
_home_of: Callable[[ObjectRef[Any]], EngineHome] = operator.attrgetter("_home")


def late(what: str, facts: list[dict[str, object]]) -> exceptions.GetTimeoutError:
    """Return the error of a wait whose time is over, with the reason."""
    text = f"{what}: {main_reason(facts)}" if facts else what
    return exceptions.GetTimeoutError(text, facts)


def main_reason(facts: list[dict[str, object]]) -> str:
    """Return the facts about a wait in one sentence: a deadlock before all else."""
    first = next((row for row in facts if row["deadlock"]), facts[0])
    more = f" (and {len(facts) - 1} more)" if len(facts) > 1 else ""
    return f"{first['text']}{more}"


def _first_ready(refs: Sequence[ObjectRef[object]], limit: int) -> list[int]:
    """Return the positions of up to `limit` ready references; stops looking when it has them."""
    positions: list[int] = []
    for position, ref in enumerate(refs):
        if ref._entry.kind is not None:
            positions.append(position)
            if len(positions) == limit:
                break
    return positions


# Never starts again, so that a reference of an earlier session is not mistaken for a new one.
_numbers = itertools.count(_STEP, _STEP)
_processes = itertools.count(DRIVER + 1)


def new_process_number() -> int:
    """Return a worker's number; never given twice by a driver, so that ids are unique over its
    sessions."""
    return next(_processes)


def _ids_of(process: int) -> Callable[[], int]:
    return itertools.count((process << _PROCESS_SHIFT) + _STEP, _STEP).__next__


def _gone() -> None:
    """Stand for the weak reference of an entry that has none."""
