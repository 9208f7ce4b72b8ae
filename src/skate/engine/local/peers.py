"""Calls from a worker to an actor, without the driver in between.

    caller ── Work ──► actor          a Unix socket in the session's directory, made on demand
           ◄── WorkResult ──

Only calls whose arguments contain no references go this way, and only results that are small and
contain none come back: then nobody but the two has to know of the object, and it lives in the
caller alone. Everything else goes through the hub, as does the first call, which asks for the
connection. A reference to such a private object that leaves the caller is *published*: the hub is
given its value, or a promise of it.

Order: calls from one caller to an ordinary actor run in the order they were made. So the caller
changes from the hub's way to the direct one only when its calls there are answered, and back only
when the direct ones are (`_Link.waiting`).
"""

from __future__ import annotations

import os
import socket
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from skate._core.peer_credentials import user_of_peer
from skate.engine.local import messages as m
from skate.engine.local.objects import INLINE, STORED, ObjectEntry
from skate.engine.local.socket_paths import use_socket
from skate.engine.local.wire import (
    Connection,
    Message,
    decode_work,
    encode,
    encode_result,
    encode_work,
)
from skate.engine.specs import CallOptions

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.local.arguments import PackedArguments
    from skate.engine.local.worker import WorkerEngine

_AT_HUB = -1  # kind in a direct `WorkResult`: the value has been given to the hub
_MOST_TOGETHER = 32
_PAUSE_SECONDS = 0.1  # until an actor without descriptors looks for some again


class _Call(NamedTuple):
    """A call for the hub: it keeps its actor and arguments alive until it is sent."""

    actor: ObjectRef[Any]
    id: int
    method: str
    packed: PackedArguments
    options: CallOptions
    parent: int


# A direct call: its values, and what is needed to report it if it is lost. As a plain tuple: a
# named one takes as long to make as the call takes to pack.
_Sent = tuple["list[ObjectRef[Any]]", "ObjectRef[Any]", str, "PackedArguments", CallOptions]


class _Link:
    """This process's way to one actor."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.asked = False  # the hub has been asked for the connection
        self.concurrent = False  # the actor keeps no order
        self.target = 0  # process number of the actor
        self.in_flight: dict[int, _Sent] = {}  # not answered
        self.at_hub: dict[int, _Sent] = {}  # answered, with a value that the hub is to tell
        self.by_hub = 0  # calls that went by the hub and are not answered
        self.waiting: deque[_Call] = deque()  # for the hub, after the direct ones


class Peers:
    """Direct connections of a worker, as a caller and, if it is an actor, as the one called."""

    def __init__(self, engine: WorkerEngine) -> None:
        self._engine = engine
        self._links: dict[int, _Link] = {}
        self._callers: dict[Connection, int] = {}
        self._kept: set[ObjectRef[Any]] = set()
        self._user = os.geteuid()

    def detach_in_child(self) -> None:
        """Detach in a forked child: let go of what is the parent's."""
        for link in self._links.values():
            if link.connection is not None:
                link.connection.detach_in_child()
        for connection in self._callers:
            connection.detach_in_child()

    # -- calling -------------------------------------------------------------------------------

    def call(
        self,
        actor: ObjectRef[object],
        id: int,
        refs: list[ObjectRef[object]],
        method: str,
        packed: PackedArguments,
        options: CallOptions,
    ) -> None:
        """Send a call, by whichever way keeps the order. The engine's lock is held."""
        link = self._links.get(actor._id)
        if link is None:
            link = self._links[actor._id] = _Link()
        if self._may_go_directly(link, packed, options):
            self._send_directly(link, actor, id, refs, method, packed, options)
        else:
            self._send_by_hub(link, actor, id, refs, method, packed, options)

    def _may_go_directly(self, link: _Link, packed: PackedArguments, options: CallOptions) -> bool:
        if link.connection is None:
            return False
        if packed.kind != INLINE or packed.dependencies or packed.nested:
            return False
        if not isinstance(options.num_returns, int) or options.retry_exceptions:
            return False
        return link.concurrent or not link.by_hub

    def _send_directly(
        self,
        link: _Link,
        actor: ObjectRef[object],
        id: int,
        refs: list[ObjectRef[object]],
        method: str,
        packed: PackedArguments,
        options: CallOptions,
    ) -> None:
        connection = link.connection
        assert connection is not None
        count = options.num_returns
        assert isinstance(count, int)
        message = encode_work(
            m.CALL, id, method, packed.kind, packed.data, None, count, _settings(options)
        )
        link.in_flight[id] = (refs, actor, method, packed, options)
        for ref in refs:
            ref._entry.asked = True
            ref._entry.link = link
        self._engine.reactor.collect(connection, message)
        if len(link.in_flight) == 1 or len(connection.outbox) >= _MOST_TOGETHER:
            connection.flush()

    def _send_by_hub(
        self,
        link: _Link,
        actor: ObjectRef[object],
        id: int,
        refs: list[ObjectRef[object]],
        method: str,
        packed: PackedArguments,
        options: CallOptions,
    ) -> None:
        engine = self._engine
        self._count_by_hub(link, refs[0])
        link.waiting.append(_Call(actor, id, method, packed, options, engine.parent()))
        if link.in_flight and not link.concurrent:
            return
        self._go_on_by_hub(link)
        if not link.asked and link.connection is None:
            link.asked = True
            engine.send(m.ConnectTo(actor._id))

    def _count_by_hub(self, link: _Link, ref: ObjectRef[object]) -> None:
        """Know when the call is answered, also if nobody else asks for its value."""
        link.by_hub += 1

        def answered(entry: ObjectEntry) -> None:
            link.by_hub -= 1

        self._keep_until_complete(ref)
        self._engine.on_complete(ref._entry, answered)
        self._engine._want([ref._entry])

    def cancel(self, entry: ObjectEntry, force: bool) -> bool:
        """Cancel a direct call; False if it is not one."""
        link: _Link | None = entry.link
        if link is None or link.connection is None:
            return False
        if force:
            raise ValueError("force=True is not supported for actor tasks; use skate.kill(actor)")
        self._engine.reactor.collect(link.connection, encode(m.CancelWork(entry.id)))
        link.connection.flush()
        return True

    def unanswered(self) -> list[tuple[int, int, str]]:
        """Return the calls that the hub does not know of: id, actor, method."""
        direct = [
            (id, actor._id, method)
            for link in self._links.values()
            for id, (_, actor, method, *_) in link.in_flight.items()
        ]
        waiting = [call for link in self._links.values() for call in link.waiting]
        return direct + [(call.id, call.actor._id, call.method) for call in waiting]

    # -- the connection ------------------------------------------------------------------------

    def on_peer(self, actor_id: int, path: str, concurrent: bool, target: int) -> None:
        """Connect to where the actor listens; "" if it cannot be reached directly now."""
        link = self._links.get(actor_id)
        if link is None:
            return
        link.asked = False
        if not path:
            return
        sock = socket.socket(socket.AF_UNIX)
        try:
            use_socket(self._engine.settings["session_dir"], path, sock.connect)
            self._check_user(sock)
        except OSError:  # it has just died; the hub will tell
            sock.close()
            return
        connection = link.connection = Connection(sock)
        link.concurrent = concurrent
        link.target = target
        connection.outbox.append(encode(m.Hello(self._engine.process)))
        connection.flush()
        self._engine.reactor.add(sock.fileno(), lambda: self._answered(actor_id, link))

    def _answered(self, actor_id: int, link: _Link) -> None:
        engine = self._engine
        with engine.lock:
            connection = link.connection
            if connection is None:
                return
            received = connection.receive()
            if received is None:
                self._lost(actor_id, link)
                return
            for number, fields in received:
                if number == m.RESULT:
                    self._on_result(link, *fields)
                else:
                    self._on_results(link, *fields)
            if link.waiting and not link.in_flight:
                self._go_on_by_hub(link)

    def _on_result(
        self, link: _Link, id: int, kind: int, data: Any, contained: object, micros: int
    ) -> None:
        sent = link.in_flight.pop(id)
        if kind == _AT_HUB:
            self._ask_hub(link, id, sent)
        else:
            (ref, *_), *_ = sent
            self._complete(ref, kind, data)

    def _on_results(self, link: _Link, id: int, values: Any, micros: int) -> None:
        sent = link.in_flight.pop(id)
        if any(kind == _AT_HUB for kind, _, _ in values):
            self._ask_hub(link, id, sent)
            return
        refs, *_ = sent
        for ref, (kind, data, _) in zip(refs, values, strict=True):
            self._complete(ref, kind, data)

    def _complete(self, ref: ObjectRef[object], kind: int, data: Any) -> None:
        engine, entry = self._engine, ref._entry
        promised = entry.link is None
        engine.complete(entry, kind, data)
        if promised:
            engine.send(m.PutValue(entry.id, kind, data, ()))

    def _ask_hub(self, link: _Link, id: int, sent: _Sent) -> None:
        """Wait for values that the actor has given to the hub, unless it died before that was
        written: the call is not over until they are here."""
        link.at_hub[id] = sent
        refs, *_ = sent

        def came(entry: ObjectEntry) -> None:
            if all(ref._entry.kind is not None for ref in refs):
                link.at_hub.pop(id, None)

        self._wait_for_hub(refs)
        for ref in refs:
            self._engine.on_complete(ref._entry, came)

    def _wait_for_hub(self, refs: list[ObjectRef[object]]) -> None:
        for ref in refs:
            entry = ref._entry
            entry.link, entry.asked = None, False
            # Only after the hub has the value may the reference go: its release must come last.
            self._keep_until_complete(ref)
        self._engine._want([ref._entry for ref in refs])

    def _keep_until_complete(self, ref: ObjectRef[object]) -> None:
        self._kept.add(ref)
        self._engine.on_complete(ref._entry, lambda entry: self._kept.discard(ref))

    def _go_on_by_hub(self, link: _Link) -> None:
        engine = self._engine
        while link.waiting:
            actor, id, method, packed, options, parent = link.waiting.popleft()
            engine.published([actor])
            sendable = engine.sendable(packed)
            key = engine.options_key(options)  # which is good until a thousand others are used
            engine.send(m.SubmitCall(id, actor._id, method, *sendable, key, parent))

    def _lost(self, actor_id: int, link: _Link) -> None:
        """Report calls whose actor's process is gone: the hub knows what that means."""
        engine = self._engine
        assert link.connection is not None
        engine.reactor.remove(link.connection.fileno())
        link.connection.close()
        if self._links.get(actor_id) is link:
            del self._links[actor_id]
        for id, (_, actor, method, packed, options) in (
            *link.at_hub.items(),
            *link.in_flight.items(),
        ):
            engine.published([actor])
            key = engine.options_key(options)
            call = m.SubmitCall(
                id, actor._id, method, packed.kind, packed.data, [], (), key, engine.parent()
            )
            engine.send(m.LostCall(link.target, tuple(call)))
        for refs, *_ in link.in_flight.values():
            self._wait_for_hub(refs)
        link.in_flight.clear()
        self._go_on_by_hub(link)

    # -- private objects -----------------------------------------------------------------------

    def publish(self, entry: ObjectEntry) -> None:
        """Tell the hub of an object whose reference leaves, if only this process knows it."""
        if entry.link is None:
            return
        entry.link = None
        if entry.kind is None:
            self._engine.send(m.PromiseValues((entry.id,)))
        else:
            self._engine.send(m.PutValue(entry.id, entry.kind, entry.data, ()))

    # -- being called --------------------------------------------------------------------------

    def listen(self) -> None:
        engine = self._engine
        name = f"actor-{engine.process}"
        try:
            listener = socket.socket(socket.AF_UNIX)
            use_socket(engine.settings["session_dir"], name, listener.bind)
        except OSError:  # above all, no descriptor is left: calls go on by the hub
            engine.send(m.Listening(""))
            return
        listener.listen(128)
        listener.setblocking(False)
        self._accept_from(listener)
        engine.send(m.Listening(name))

    def _accept_from(self, listener: socket.socket) -> None:
        self._engine.reactor.add(listener.fileno(), lambda: self._accept(listener))

    def _check_user(self, sock: socket.socket) -> None:
        """Raise unless the other end is a process of the session's user: what comes from there is
        unpickled, and where others may rename the session's directory it can be anybody's."""
        user = user_of_peer(sock)
        if user != self._user:
            raise PermissionError(f"user {user} is at the other end; expected user {self._user}")

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # above all, no descriptor is left; callers wait until there is one
            reactor = self._engine.reactor
            reactor.remove(listener.fileno())
            reactor.call_later(_PAUSE_SECONDS, lambda: self._accept_from(listener))
            return
        try:
            self._check_user(sock)
        except OSError:
            sock.close()
            return
        connection = Connection(sock)
        self._engine.reactor.add(sock.fileno(), lambda: self._called(connection))

    def _called(self, connection: Connection) -> None:
        engine = self._engine
        with engine.lock:
            received = connection.receive()
            if received is None:
                engine.reactor.remove(connection.fileno())
                connection.close()
                self._callers.pop(connection, None)
                return
            for number, fields in received:
                if number == m.WORK:
                    engine.execution.take(decode_work(fields), connection)
                elif number == m.HELLO:
                    (self._callers[connection],) = fields
                else:
                    engine.execution.handlers[number](*fields)

    def reply(self, connection: Connection, message: Message) -> None:
        """Answer a direct call; what others may need goes through the hub."""
        number, fields = message
        engine = self._engine
        with engine.lock:
            if number == m.RESULT:
                id, kind, data, contained, micros = fields
                if kind == STORED or contained:
                    self._give_to_hub(connection, id, kind, data, contained)
                    message = encode_result(id, _AT_HUB, None, (), micros)
            else:
                id, values, micros = fields
                if any(kind == STORED or contained for kind, _, contained in values):
                    for offset, value in enumerate(values):
                        self._give_to_hub(connection, id + offset, *value)
                    at_hub = [(_AT_HUB, None, ())] * len(values)
                    message = encode(m.WorkResults(id, at_hub, micros))
            engine.reactor.collect(connection, message)

    def _give_to_hub(
        self, connection: Connection, id: int, kind: int, data: Any, contained: Any
    ) -> None:
        caller = self._callers.get(connection, 0)  # 0: it has gone, and the hub lets go of it
        self._engine.send(m.PutValueFor(caller, id, kind, data, contained))


def _settings(options: CallOptions) -> m.WorkSettings | None:
    settings: m.WorkSettings = {}
    if options.concurrency_group:
        settings["concurrency_group"] = m.plain_text(options.concurrency_group)
    if options.name:
        settings["name"] = m.plain_text(options.name)
    return settings or None
