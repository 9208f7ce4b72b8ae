"""HTTP on the event loop of a replica: uvicorn's protocols on connections from a shared socket.

    accept ──► connection ──► its first request is for another deployment? ─► passed to a process
                   │                                                           that answers it
                   ▼
               the front, an ASGI application, in a task per request

uvicorn's own server is not used: it installs signal handlers, wakes up ten times a second, and
takes as many connections at once as there are, although another process might be idle.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import socket
import time
from collections.abc import Awaitable, Callable, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from skate._imports import try_import
from skate.serve._http import passing
from skate.serve._http.answers import TASK

if TYPE_CHECKING:
    from skate.serve.config import HTTPOptions

_COURTESY = 0.001  # seconds: much for an idle process, little for a new connection

CONNECTION = b"C"  # a message that begins so carries a connection, and what was read from it


class Server:
    """Accepts, speaks HTTP, passes connections on, and ends gracefully."""

    def __init__(
        self,
        app: Any,
        options: HTTPOptions,
        other_place: Callable[[str], str | None],
        has_peers: Callable[[], bool],
        wait_for_room: Callable[[str], Awaitable[str | None] | None],
    ) -> None:
        """`other_place(path)`: the place that answers a path, if it is not this process.
        `has_peers()`: whether another process could take any connection as well.
        `wait_for_room(path)`: for a websocket, None if it is answered here and now; else, when
        there is room, the place that has it, or None for here."""
        uvicorn = try_import("uvicorn", "serve")
        self._loop = asyncio.get_running_loop()
        self._other_place = other_place
        self._has_peers = has_peers
        self._wait_for_room = wait_for_room
        self._listener: socket.socket | None = None
        self._state = uvicorn.server.ServerState()
        self._config = _config(uvicorn, app, options)
        self._protocol = _protocol_class(self._config.http_protocol_class, self)
        self._dated = 0.0
        self._connecting = 0
        self._emptied = asyncio.Event()

    @property
    def listener(self) -> socket.socket | None:
        return self._listener

    def accept_from(self, listener: socket.socket) -> None:
        """Take connections from this socket, one at a time: others may be idle."""
        self.stop_accepting()
        listener.setblocking(False)
        self._listener = listener
        self._loop.add_reader(listener.fileno(), self._accept)

    def stop_accepting(self) -> None:
        listener, self._listener = self._listener, None
        if listener is not None:
            self._loop.remove_reader(listener.fileno())
            listener.close()

    def adopt(self, connection: socket.socket, read: bytes = b"") -> None:
        """Speak HTTP on a connection from which `read` has been read already."""
        connection.setblocking(False)
        self._connecting += 1
        self._loop.create_task(self._connect(connection, read))

    def pass_idle(self, place: str) -> None:
        """Give connections without a request to `place`; the others end after their response."""
        for protocol in list(self._state.connections):
            if not getattr(protocol, "is_idle", False) or not self._pass(
                protocol, place, protocol.held
            ):
                protocol.shutdown()

    async def finished(self) -> None:
        """Returns when no connection is left."""
        while self._state.connections or self._connecting:
            self._emptied.clear()
            await self._emptied.wait()

    def close(self) -> None:
        """End what is left, at once."""
        self.stop_accepting()
        for protocol in list(self._state.connections):
            protocol.transport.abort()

    # -- connections ---------------------------------------------------------------------------

    def _accept(self) -> None:
        """A connection waits. Who is busy lets others go first, for a moment."""
        if self._listener is None:
            return
        if self._state.tasks and self._has_peers():
            self._loop.remove_reader(self._listener.fileno())
            self._loop.call_later(_COURTESY, self._accept_now)
        else:
            self._take()

    def _accept_now(self) -> None:
        if self._listener is not None:
            self._loop.add_reader(self._listener.fileno(), self._accept)
            self._take()

    def _take(self) -> None:
        assert self._listener is not None
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return  # another process was faster, or the client is gone
        self.adopt(connection)

    async def _connect(self, connection: socket.socket, read: bytes) -> None:
        def protocol() -> Any:
            made = self._protocol(
                config=self._config, server_state=self._state, app_state={}, _loop=self._loop
            )
            made.read_before = read
            return made

        try:
            await self._loop.connect_accepted_socket(protocol, connection, ssl=self._config.ssl)
        except (OSError, asyncio.TimeoutError):
            connection.close()  # gone, or it speaks no TLS
        finally:
            self._connecting -= 1
            self.closed()

    def opened(self) -> None:
        """A connection begins: responses carry the date, which is kept while there are some."""
        if time.time() - self._dated > 1:
            self._tick()

    def _tick(self) -> None:
        self._dated = time.time()
        date = (b"date", formatdate(self._dated, usegmt=True).encode())
        self._state.default_headers[:] = [date, *self._config.encoded_headers]
        if self._state.connections:
            self._loop.call_later(1, self._tick)

    def closed(self) -> None:
        if not self._state.connections:
            self._emptied.set()

    def pass_on(self, protocol: Any, data: bytes) -> bool:
        """Whether the connection has gone to a process that answers its first request itself."""
        place = self._other_place(_path(data))
        return place is not None and self._pass(protocol, place, data)

    def hold(self, protocol: Any, data: bytes) -> asyncio.Task[None] | None:
        """A websocket for which there is no room here waits before it is read, so that its
        connection can go to whoever has room."""
        if self._config.ssl is not None or not _is_websocket(data):
            return None
        room = self._wait_for_room(_path(data))
        return None if room is None else self._loop.create_task(self._release(protocol, room))

    async def _release(self, protocol: Any, room: Awaitable[str | None]) -> None:
        place = await room
        if place is None or not self._pass(protocol, place, protocol.held):
            protocol.release()

    def _pass(self, protocol: Any, place: str, data: bytes) -> bool:
        if self._config.ssl is not None:
            return False  # what was agreed on is in this process
        transport = protocol.transport
        transport.pause_reading()
        descriptor = os.dup(transport.get_extra_info("socket").fileno())
        try:
            passing.send(place, CONNECTION + data, [descriptor])
        except OSError:
            transport.resume_reading()
            return False
        finally:
            os.close(descriptor)
        transport.abort()  # closes this process's copy of the descriptor only
        return True


def _path(data: bytes) -> str:
    """The path in the first line of a request; "" where there is none."""
    parts = data[: data.find(b"\r\n")].split(b" ")
    return unquote(parts[1].partition(b"?")[0].decode("latin-1")) if len(parts) == 3 else ""


def _is_websocket(data: bytes) -> bool:
    return b"\r\nupgrade: websocket" in data.lower()


def _config(uvicorn: Any, app: Any, options: HTTPOptions) -> Any:
    tls: Mapping[str, Any] = {}
    if options.ssl_certfile:
        tls = {
            "ssl_keyfile": options.ssl_keyfile,
            "ssl_certfile": options.ssl_certfile,
            "ssl_keyfile_password": options.ssl_keyfile_password,
            "ssl_ca_certs": options.ssl_ca_certs,
        }
    for middleware in options.middlewares:
        app = middleware.cls(app, *middleware.args, **middleware.kwargs)
    config = uvicorn.Config(
        app,
        lifespan="off",
        log_config=None,
        access_log=False,
        root_path=options.root_path,
        timeout_keep_alive=options.keep_alive_timeout_s,
        **tls,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # the front tells what failed
    config.load()
    return config


def _protocol_class(base: Any, server: Server) -> Any:
    """uvicorn's protocol, with eyes for first requests and lost clients."""

    class Protocol(base):  # type: ignore[misc]
        read_before = b""
        _is_new = True
        _unfinished = 0  # requests of which only a part has come
        held = b""  # what came of a request that waits for room
        _waiting: asyncio.Task[None] | None = None

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            server.opened()
            if self.read_before:
                self._is_new = False
                self._begin(self.read_before)

        def data_received(self, data: bytes) -> None:
            if self._waiting is not None:
                self.held += data
            elif self._is_new:
                self._is_new = False
                if not server.pass_on(self, data):
                    self._begin(data)
            else:
                super().data_received(data)

        def _begin(self, data: bytes) -> None:
            """Its first request is answered here, unless it waits for room anywhere."""
            self._waiting = server.hold(self, data)
            if self._waiting is None:
                super().data_received(data)
            else:
                self.held = data

        def release(self) -> None:
            """What was held is answered here."""
            held, self.held, self._waiting = self.held, b"", None
            super().data_received(held)

        def on_message_begin(self) -> None:
            self._unfinished += 1
            super().on_message_begin()

        def on_message_complete(self) -> None:
            self._unfinished -= 1
            super().on_message_complete()

        @property
        def is_idle(self) -> bool:
            """Whether nothing of a request is here; only one kind of protocol can tell."""
            waits = self.cycle is None or self.cycle.response_complete
            return waits and not self._unfinished and hasattr(base, "on_message_begin")

        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            server.closed()
            if self._waiting is not None:
                self._waiting.cancel()
            if self.cycle is not None and not self.cycle.response_complete:
                task = self.scope.get(TASK)
                if task is not None:
                    task.cancel()

    return Protocol


def any_of(places: list[str]) -> str | None:
    return random.choice(places) if places else None
