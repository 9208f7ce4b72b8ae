"""A worker process: its engine (the façade works here too) and its way of life."""

from __future__ import annotations

import itertools
import socket
import sys
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from skate._core import serialization
from skate._core.refs import ObjectRef, ObjectRefGenerator
from skate._core.serialization import Serialized
from skate.engine.local import messages as m
from skate.engine.local import surroundings
from skate.engine.local.arguments import PackedArguments, dump_function, pack
from skate.engine.local.asking import Asking, described
from skate.engine.local.execution import Execution
from skate.engine.local.inspection.worker import of_worker
from skate.engine.local.objects import (
    FAILED,
    INLINE,
    INLINE_LIMIT_BYTES,
    STORED,
    Needs,
    ObjectEntry,
)
from skate.engine.local.peers import Peers
from skate.engine.local.printing import Printer
from skate.engine.local.reactor import Reactor
from skate.engine.local.recent_mapping import RecentMapping
from skate.engine.local.store import Store
from skate.engine.local.unread import PackedUnreadErrors
from skate.engine.local.wire import Connection, by_number, decode_work, encode
from skate.engine.local.worker_streams import WorkerStreams
from skate.engine.specs import (
    ActorMeta,
    ActorOptions,
    CallOptions,
    ClassSpec,
    Context,
    FunctionSpec,
    TaskOptions,
)

_SOON_SECONDS = 0.002
_MOST_OPTIONS = 1000


class _Exported:
    """Lives as long as something in this process can send tasks of a function."""

    __slots__ = ("__weakref__",)


class WorkerEngine(WorkerStreams, Asking):
    """The engine inside a worker: everything is asked of the driver's hub, over one socket."""

    name = "local"

    def __init__(self, number: int, settings: Mapping[str, Any], sock: socket.socket) -> None:
        super().__init__(number)
        self.settings = settings
        self.session_name: str = settings["session_name"]
        self.reactor: Reactor = Reactor()
        self.reactor.on_turn = self._tidy
        self.hub: Connection = Connection(sock)
        self.store: Store = Store(
            settings["shm_dir"],
            settings["disk_dir"],
            number,
            settings["capacity"],
            self.reactor.call_later,
        )
        self.printers: tuple[Printer, ...] = ()
        self.unfinished_lines: set[object] = set()  # who has printed the beginning of a line
        self.execution: Execution = Execution(self)
        self.peers: Peers = Peers(self)
        self._options_sent: dict[int, tuple[Any, int]] = {}
        self._unexported: deque[int] = deque()  # keys of functions that are gone
        self._waits = itertools.count(1)
        self._unread = PackedUnreadErrors(self.reactor.after)
        self._recent_mapping = RecentMapping(self.reactor.call_later)
        self._handlers: dict[int, Callable[..., None]] = {
            **by_number(
                {
                    m.TellValue: self._on_value,
                    m.RecycleSegment: self.store.recycle,
                    m.PeerAddress: self.peers.on_peer,
                    m.ListenToPeers: self.peers.listen,
                    m.AskWaits: self._on_ask_waits,
                }
            ),
            **self.execution.handlers,
        }
        self.reactor.add(sock.fileno(), self._readable)
        self._inspection = of_worker(self)

    # -- the hub -------------------------------------------------------------------------------

    def send(self, message: tuple[object, ...]) -> None:
        """Send one of `messages` to the hub; the lock is held, or order does not matter."""
        self.reactor.collect(self.hub, encode(message))

    def _readable(self) -> None:
        with self.lock:
            received = self.hub.receive()
            if received is None:
                surroundings.end_process_group()  # the driver is gone
                return
            for number, fields in received:
                if number == m.WORK:
                    self.execution.take(decode_work(fields))
                else:
                    self._handlers[number](*fields)

    def request(self, method: str, *args: object, blocking: bool = False) -> Any:
        """Ask the hub something and wait for the answer."""
        entry = ObjectEntry(self.next_id())
        needs = Needs({entry}, 1, fail_fast=True)
        packed = serialization.dumps(args).packed()
        with self.lock:
            self.entries[entry.id] = entry
            self._blocked.append(needs)
            self.send(m.AskHub(entry.id, method, packed))
        try:
            if blocking:
                self._while_blocked(needs, None)
            else:
                self.reactor.run_until(needs)
        finally:
            with self.lock:
                self._blocked.remove(needs)
                self.entries.pop(entry.id, None)
        return self.load(entry)

    def _on_value(self, id: int, kind: int, data: object) -> None:
        entry = self.entries.get(id)
        if entry is not None and entry.kind is None:
            self.complete(entry, kind, data)

    def _on_ask_waits(self) -> None:
        from skate.engine.local import waiting

        self.send(waiting.told(self))

    def _tidy(self) -> None:
        if self.dropped:
            self.collect()
        while self._unexported:
            self.send(m.UnexportFunction(self._unexported.popleft()))

    # -- objects -------------------------------------------------------------------------------

    def put(self, value: object) -> ObjectRef[Any]:
        return self._put(serialization.dumps(value, "the put value"))

    def _put(self, serialized: Serialized) -> ObjectRef[Any]:
        kind, data = self.keep(serialized)
        entry = ObjectEntry(self.next_id())
        with self.lock:
            self._own(entry)
            entry.kind, entry.data = kind, data
            self.send(m.PutValue(entry.id, kind, data, self.published(serialized.refs)))
        self.reactor.touch()
        return self.new_ref(entry)

    def put_error(self, packed: object) -> ObjectRef[Any]:
        """Return a reference whose value is an error."""
        entry = ObjectEntry(self.next_id())
        with self.lock:
            self._own(entry)
            entry.kind, entry.data = FAILED, packed
            self.send(m.PutValue(entry.id, FAILED, packed, ()))
        return self.new_ref(entry)

    def keep(self, serialized: Serialized) -> tuple[int, Any]:
        """Keep small values in the message, and large ones in the store."""
        if serialized.size <= INLINE_LIMIT_BYTES:
            return INLINE, serialized.packed()
        if self.dropped:
            self.collect()
        return STORED, self.store.write(serialized, lambda size: self.request("make_room", size))

    def published(self, refs: Sequence[ObjectRef[object]]) -> tuple[int, ...]:
        """Return the ids of references that leave this process: the hub must know their
        objects."""
        if not refs:
            return ()
        for ref in refs:
            self.peers.publish(self.entry_of(ref))
        return tuple(ref._id for ref in refs)

    def _own(self, entry: ObjectEntry) -> None:
        self.entries[entry.id] = entry
        entry.held = True

    def _hold(self, entry: ObjectEntry) -> None:
        self.send(m.Hold((entry.id,)))

    def _release(self, entry: ObjectEntry) -> None:
        self.entries.pop(entry.id, None)
        if entry.link is None:
            self.send(m.Release((entry.id,)))
        elif entry.kind == FAILED and not entry.read:
            self._unread.add(entry.data)

    def _want(self, entries: Iterable[ObjectEntry]) -> None:
        unknown = [entry for entry in entries if not entry.asked and entry.kind is None]
        if unknown:
            for entry in unknown:
                entry.asked = True
            self.send(m.Subscribe([entry.id for entry in unknown]))

    def load_argument(self, kind: int, data: Any, id: int, borrowed: list[ObjectEntry]) -> Any:
        """Return the value of an object that came along with a call, which keeps it until
        answered."""
        if kind == INLINE:
            return serialization.loads(data)
        with self.lock:
            entry = self.entries.get(id)
            if entry is None:
                entry = self.entries[id] = ObjectEntry(id)
            if entry.kind is None:
                self.complete(entry, kind, data)
        borrowed.append(entry)
        value = self.load(entry, borrow=True)
        self._recent_mapping.keep(entry.mapping())
        return value

    def _described(self, ref: ObjectRef[object]) -> str:
        return described(self, ref)

    def _refetch(self, entry: ObjectEntry) -> None:
        entry.data = self.request("locate", entry.id)

    def _facts_in_time(
        self, wanted: Iterable[ObjectEntry], timeout: float | None
    ) -> list[dict[str, object]]:
        return list(self.request("waits", [entry.id for entry in wanted if entry.link is None]))

    def pin(self, ref: ObjectRef[object]) -> None:
        with self.lock:
            self.published([ref])
        self.request("pin", ref._id)

    def _while_blocked(self, needs: Needs, timeout: float | None) -> bool:
        if timeout == 0:
            # Whatever is ready has been told when the hub answers.
            self.request("sync")
            return needs.done
        if self._hub_need_not_know(needs, timeout):
            return self.execution.wait(needs, timeout)
        with self.lock:
            self.execution.give_back()
            number = next(self._waits)
            ids = [entry.id for entry in needs.wanted if entry.kind is None]
            self.send(m.Blocked(number, ids, needs.missing))
        try:
            return self.execution.wait(needs, timeout)
        finally:
            with self.lock:
                self.send(m.Unblocked(number))

    def _hub_need_not_know(self, needs: Needs, timeout: float | None) -> bool:
        """Return whether waiting keeps no CPU from others: an actor that has none, or an answer
        that comes directly from another actor, and soon."""
        if self.execution.actor.instance is not None and not self.execution.actor.has_cpu:
            return True
        if all(entry.link is not None for entry in needs.wanted):
            return self.execution.wait(
                needs, _SOON_SECONDS if timeout is None else min(timeout, _SOON_SECONDS)
            )
        return False

    # -- tasks ---------------------------------------------------------------------------------

    def submit(
        self,
        function: FunctionSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Any:
        options = self.execution.captured(options)
        key = self._export(function, function.function, function.name)
        packed = pack(args, kwargs, self._put)
        id, refs = self._new_returns(options.num_returns)
        with self.lock:
            key_of_options = self.options_key(options)
            sendable = self.sendable(packed)
            self.send(m.SubmitTask(id, key, *sendable, key_of_options, self.parent()))
        self._write()
        return _returned(options.num_returns, refs)

    def sendable(
        self, packed: PackedArguments
    ) -> tuple[int, Any, list[tuple[m.Slot, int]], tuple[int, ...]]:
        """Return kind, data, dependencies and nested references, as messages have them."""
        dependencies = [(slot, ref._id) for slot, ref in packed.dependencies]
        self.published([ref for _, ref in packed.dependencies])
        return packed.kind, packed.data, dependencies, self.published(packed.nested)

    def _new_returns(self, num_returns: int | str) -> tuple[int, list[ObjectRef[Any]]]:
        id = self.next_id()
        count = max(1, num_returns) if isinstance(num_returns, int) else 1
        refs = []
        for number in range(id, id + count):
            entry = ObjectEntry(number)
            self._own(entry)
            refs.append(self.new_ref(entry))
        return id, refs

    def _export(self, spec: Any, function: object, name: str) -> int:
        exported = spec.exported
        if exported is None or exported[0] is not self:
            serialized = dump_function(function, name)
            kind, data = self.keep(serialized)
            key = self.next_id()
            with self.lock:
                nested = self.published(serialized.refs)
                self.send(m.ExportFunction(key, kind, data, name, nested))
                exported = self._first_export(spec, key)
        known: int = exported[1]
        return known

    def _first_export(self, spec: Any, key: int) -> object:
        """Return what all threads use: the export that was first, also when several had begun.
        Another thread may be about to submit a task of it. The lock is held."""
        exported = spec.exported
        if exported is not None and exported[0] is self:
            self._unexported.append(key)
            return exported
        spec.exported = exported = (self, key, _Exported())
        weakref.finalize(exported[2], self._unexported.append, key).atexit = False
        return exported

    def options_key(self, options: Any) -> int:
        """Return the number of options, which are sent once."""
        known = self._options_sent.get(id(options))
        if known is not None:
            return known[1]
        if len(self._options_sent) >= _MOST_OPTIONS:
            self._options_sent.clear()
            self.send(m.DefineOptions(-1, None))
        sendable = options
        if isinstance(getattr(options, "retry_exceptions", None), tuple):
            types = serialization.dumps(options.retry_exceptions).packed()
            sendable = options._replace(retry_exceptions=types)
        serialized = serialization.dumps(sendable)
        key = self.next_id()
        self._options_sent[id(options)] = (options, key)
        self.published(serialized.refs)
        self.send(m.DefineOptions(key, serialized.packed()))
        return key

    def parent(self) -> int:
        return self.execution.current_task_id()

    def _write(self) -> None:
        if len(self.hub.outbox) >= 32:
            self.reactor.flush()
        else:
            self.reactor.touch()

    def cancel(self, ref: ObjectRef[object], force: bool, recursive: bool) -> None:
        entry = self.entry_of(ref)
        if not self.peers.cancel(entry, force):
            self.request("cancel", entry.id, force, recursive)

    # -- actors --------------------------------------------------------------------------------

    def create_actor(
        self,
        cls: ClassSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: ActorOptions,
    ) -> tuple[ObjectRef[Any], ActorMeta]:
        options = self.execution.captured(options)
        key = self._export(cls, cls.cls, cls.meta.class_name)
        packed = pack(args, kwargs, self._put)
        id, (ref,) = self._new_returns(1)
        meta = serialization.dumps(cls.meta).packed()
        with self.lock:
            key_of_options = self.options_key(options)
            sendable = self.sendable(packed)
            creation = m.SubmitActor(id, key, *sendable, key_of_options, meta)
            if options.name is None:
                self.send(creation)
        if options.name is not None:
            existing = self.request("create_named_actor", *creation)
            if existing is not None:
                id, meta = existing
                return self.given(id), serialization.loads(meta)
        self._write()
        return ref, cls.meta

    def call_actor(
        self,
        actor: ObjectRef[object],
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: CallOptions,
    ) -> Any:
        packed = pack(args, kwargs, self._put)
        id, refs = self._new_returns(options.num_returns)
        with self.lock:
            self.peers.call(actor, id, refs, method, packed, options)
        self._write()
        return _returned(options.num_returns, refs)

    def exit_actor(self) -> None:
        self.execution.exit_actor()

    # -- surroundings --------------------------------------------------------------------------

    def finish_lines(self, writer: object) -> None:
        """End the lines that a piece of work has begun to print."""
        for ended in {writer, None} & self.unfinished_lines:
            self.unfinished_lines.discard(ended)
            for printer in self.printers:
                printer.finish_line(ended)

    def record_span(
        self, name: str, start: float, micros: int, extra: Mapping[str, object]
    ) -> None:
        with self.lock:
            self.send(m.RecordSpan(name, start, micros, dict(extra)))
        self._write()

    def ask(self, method: str, *args: object) -> Any:
        return self.request(method, *args)

    def given(self, id: int) -> ObjectRef[Any]:
        """Return a reference to what the hub has lent us: ours from now on, so the loan can
        end."""
        with self.lock:
            ref = self.adopt(id)
            self.send(m.ReturnLoan(id))
            return ref

    def new_object(self) -> ObjectRef[Any]:
        _, (ref,) = self._new_returns(1)
        return ref

    def context(self) -> Context:
        return self.execution.context()

    def detach_in_child(self) -> None:
        """Detach in a child that user code has forked: the sockets are its parent's."""
        from skate.engine import install_engine

        if self.reactor.closed:
            return  # a child of that child, whose descriptors are its own
        sys.stdout, sys.stderr = sys.__stdout__, sys.__stderr__
        install_engine(None)
        self.execution.interrupts.detach_in_child()
        self.hub.detach_in_child()
        self.peers.detach_in_child()
        self._inspection.detach_in_child()
        self.reactor.detach_in_child()

    def shutdown(self) -> None:
        raise RuntimeError("shutdown() is for the driver; this is a worker")


def _returned(num_returns: int | str, refs: list[ObjectRef[Any]]) -> Any:
    if num_returns == "streaming":
        return ObjectRefGenerator(refs[0])
    if num_returns in (1, "dynamic"):
        return refs[0]
    return refs if num_returns else None
