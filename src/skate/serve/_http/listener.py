"""HTTP on the event loop of a process: uvicorn's protocols on connections from a shared socket.

    accept ──► connection ──► its first request is for another deployment? ─► passed to a process
                   │                                                           that answers it
                   ▼
               the ASGI application, in a task per request

uvicorn's own server is not used: it installs signal handlers, wakes up ten times a second, and
takes as many connections at once as there are, although another process might be idle.
"""

from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
import ssl
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from email.utils import formatdate
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.serve._http.answers import AsgiApp
from skate.serve._http.fd_passing import hand_over
from skate.serve._http.protocol import (
    MovableConnection,
    http_protocol_class,
    websocket_protocol_class,
)

if TYPE_CHECKING:
    from skate.serve._http.asgi import HttpApp
    from skate.serve._http.peer import Peer
    from skate.serve.config import HTTPOptions

_COURTESY_SECONDS = 0.001  # much for an idle process, little for a new connection
_PAUSE_SECONDS = 0.1  # until a process without descriptors looks for some again
_FLUSH_SECONDS = 0.01  # until a response that is still being written is looked at again
_QUIET_SECONDS = 60.0  # between warnings of the same kind
_LAST_REQUEST_SECONDS = 1.0  # for a last request on a connection that nobody else can have
_MAX_DESCRIPTORS = 65_536

CONNECTION = b"C"  # a message that begins so carries a connection, and what was read from it

logger = logging.getLogger("skate.serve")


class Listener:
    """Accepts, speaks HTTP, passes connections on, and ends gracefully."""

    def __init__(self, app: HttpApp, options: HTTPOptions, peer: Peer) -> None:
        """Answer with `app`; `peer` knows which process should have a connection instead."""
        uvicorn = try_import("uvicorn", "serve")
        try_import("httptools", "serve")
        self._loop = asyncio.get_running_loop()
        self._options = options
        self._peer = peer
        self._successors: Callable[[], Iterable[str]] | None = None
        self._shared: socket.socket | None = None
        self._state = uvicorn.server.ServerState()
        self._config = _config(uvicorn, app, options)
        websockets = self._config.ws_protocol_class
        if websockets is not None:
            self._config.ws_protocol_class = websocket_protocol_class(websockets, self)
        self._protocol = http_protocol_class(self._config.http_protocol_class, self)
        self._max_connections = _max_connections()
        self._warned = -_QUIET_SECONDS
        self._is_ticking = False
        self._took_last = False  # the next connection is somebody else's, if there is anybody
        self._connecting = 0
        self._moves: set[asyncio.Task[None]] = set()
        self._emptied = asyncio.Event()
        self.now = self._loop.time()  # to the second, for those who look often

    @property
    def shared_socket(self) -> socket.socket | None:
        """The socket that connections are accepted from, if they are."""
        return self._shared

    def accept_from(self, shared: socket.socket) -> None:
        """Take connections from this socket, one at a time: others may be idle."""
        self.stop_accepting()
        shared.setblocking(False)
        self._shared = shared
        self._loop.add_reader(shared.fileno(), self._accept)

    def stop_accepting(self) -> None:
        """Take no more connections, and close the socket here."""
        shared, self._shared = self._shared, None
        if shared is not None:
            self._loop.remove_reader(shared.fileno())
            shared.close()

    def adopt(self, connection: socket.socket, read: bytes = b"") -> None:
        """Speak HTTP on a connection from which `read` has been read already."""
        connection.setblocking(False)
        self._connecting += 1
        self._loop.create_task(self._connect(connection, read))

    def close(self) -> None:
        """End what is left, at once."""
        self.stop_accepting()
        for move in self._moves:
            move.cancel()
        for connection in list(self._state.connections):
            connection.transport.abort()

    # -- accepting -----------------------------------------------------------------------------

    def _accept(self) -> None:
        """Take a connection that waits. Who is busy, or had the last one, lets others go first,
        for a moment."""
        if self._shared is None:
            return
        if len(self._state.connections) + self._connecting >= self._max_connections:
            self._pause_accepting()
        elif (self._state.tasks or self._took_last) and self._peer.has_siblings():
            self._loop.remove_reader(self._shared.fileno())
            self._loop.call_later(_COURTESY_SECONDS, self._accept_now)
        else:
            self._take()

    def _accept_now(self) -> None:
        if self._shared is not None:
            self._loop.add_reader(self._shared.fileno(), self._accept)
            self._took_last = False
            self._take()

    def _take(self) -> None:
        assert self._shared is not None
        try:
            connection, _ = self._shared.accept()
        except (BlockingIOError, ConnectionError, InterruptedError):
            return  # another process was faster, or the client is gone
        except OSError:  # above all, no descriptor is left
            self._pause_accepting()
            return
        self._took_last = True
        self.adopt(connection)

    def _pause_accepting(self) -> None:
        """End the connections that have been silent for longest, as there are as many as can be;
        until they have ended, new ones wait where they are."""
        assert self._shared is not None
        self._loop.remove_reader(self._shared.fileno())
        self._loop.call_later(_PAUSE_SECONDS, self._resume_accepting)
        idle = [each for each in self._state.connections if getattr(each, "is_idle", False)]
        idle.sort(key=lambda each: each.silent_since)
        for connection in idle[: max(1, self._max_connections // 8)]:
            connection.transport.close()
        if self.now - self._warned > _QUIET_SECONDS:
            self._warned = self.now
            logger.warning(
                "Serve: %d connections are as many as this process can have: the most silent are "
                "closed, others wait",
                len(self._state.connections),
            )

    def _resume_accepting(self) -> None:
        if self._shared is not None:
            self._loop.add_reader(self._shared.fileno(), self._accept)

    async def _connect(self, connection: socket.socket, read: bytes) -> None:
        def protocol() -> Any:
            made = self._protocol(
                config=self._config, server_state=self._state, app_state={}, _loop=self._loop
            )
            made.held = read
            return made

        try:
            await self._loop.connect_accepted_socket(protocol, connection, ssl=self._config.ssl)
        except (OSError, asyncio.TimeoutError):
            connection.close()  # gone, or it speaks no TLS
        finally:
            self._connecting -= 1
            self.closed()

    def opened(self) -> float:
        """Note that a connection begins; return the time."""
        if not self._is_ticking:
            self._is_ticking = True
            self._tick()
        return self.now

    def _tick(self) -> None:
        """Update the date of responses and end who is too slow, each second with connections."""
        self.now = self._loop.time()
        date = (b"date", formatdate(time.time(), usegmt=True).encode())
        self._state.default_headers[:] = [date, *self._config.encoded_headers]
        self.end_slow_connections(self.now)
        if self._state.connections or self._connecting:
            self._loop.call_later(1, self._tick)
        else:
            self._is_ticking = False

    def end_slow_connections(self, now: float) -> None:
        """End connections whose clients have not gone on for too long, at this time."""
        options = self._options
        for connection in list(self._state.connections):
            if hasattr(connection, "end_if_slow"):
                connection.end_if_slow(
                    now, options.receive_timeout_s, options.keep_alive_timeout_s
                )

    def closed(self) -> None:
        """Note that a connection has ended."""
        if not self._state.connections:
            self._emptied.set()

    # -- connections that others have ----------------------------------------------------------

    def pass_on(self, connection: MovableConnection, path: str) -> bool:
        """Return whether the connection goes to a process that answers its first request."""
        address = self._peer.address_for(path)
        if address is None or self._config.ssl is not None:
            return False
        self._move(connection, [address])
        return True

    def wait_for_room(self, connection: MovableConnection, path: str) -> asyncio.Task[None] | None:
        """Have a websocket wait for room before it begins, so that its connection can go to
        whoever has room; None if there is room here, or it can go nowhere."""
        room = None if self._config.ssl is not None else self._peer.room_for(path)
        return None if room is None else self._loop.create_task(self._begin(connection, room))

    async def _begin(self, connection: MovableConnection, room: Awaitable[str | None]) -> None:
        address = await room
        if address is None:
            connection.begin_here()
        else:
            self._move(connection, [address])

    def _move(self, connection: MovableConnection, addresses: Iterable[str]) -> None:
        connection.prepare_to_move()
        move = self._loop.create_task(self._offer(connection, addresses))
        self._moves.add(move)
        move.add_done_callback(self._moves.discard)

    async def _offer(self, connection: MovableConnection, addresses: Iterable[str]) -> None:
        """Ask one after the other; a connection that nobody takes stays here."""
        if await self._is_taken(connection, addresses):
            connection.transport.abort()  # this process's copy of the descriptor only
        elif not connection.transport.is_closing():
            if self.is_leaving:
                connection.end_soon()
            connection.stay()
            self.move_if_idle(connection)

    async def _is_taken(self, connection: MovableConnection, addresses: Iterable[str]) -> bool:
        try:
            descriptor = os.dup(connection.transport.get_extra_info("socket").fileno())
        except OSError:
            return False  # it is closed, or no descriptor is left
        try:
            for address in addresses:
                if await hand_over(address, CONNECTION + connection.held, [descriptor]):
                    return True
            return False
        finally:
            os.close(descriptor)

    # -- the end -------------------------------------------------------------------------------

    @property
    def is_leaving(self) -> bool:
        """Whether other processes are to have the connections."""
        return self._successors is not None

    @property
    def is_ending(self) -> bool:
        """Whether connections end here, as nobody else can have them."""
        return self.is_leaving and self._config.ssl is not None

    def leave(self, successors: Callable[[], Iterable[str]]) -> None:
        """Give all connections to one of these addresses, each as soon as it has no request."""
        self.stop_accepting()
        self._successors = successors
        for connection in list(self._state.connections):
            if not hasattr(connection, "is_idle"):
                connection.shutdown()  # a websocket
                continue
            if self._config.ssl is not None:
                connection.end_soon()  # what was agreed on with the client is in this process
            self.move_if_idle(connection)

    def give_idle_to(self, address: str) -> None:
        """Have another process go on with connections that have no request here."""
        for connection in list(self._state.connections):
            idle = getattr(connection, "is_idle", False) and self._config.ssl is None
            if idle and not connection.transport.get_write_buffer_size():
                self._move(connection, [address])

    def move_if_idle(self, connection: MovableConnection) -> None:
        """Have another process go on, if this one is leaving and no request is here."""
        if self._successors is None or not connection.is_idle:
            return
        if connection.ends or self._config.ssl is not None:
            self._loop.call_later(_LAST_REQUEST_SECONDS, self._end, connection)
        elif connection.transport.get_write_buffer_size():
            self._loop.call_later(_FLUSH_SECONDS, self.move_if_idle, connection)
        else:
            self._move(connection, self._successors())

    def _end(self, connection: MovableConnection) -> None:
        if connection.is_idle:
            connection.transport.close()

    async def finished(self) -> None:
        """Return when no connection is left."""
        while self._state.connections or self._connecting:
            self._emptied.clear()
            await self._emptied.wait()


def _max_connections() -> int:
    """Return how many descriptors may be open, without those that others here need."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    unlimited = resource.RLIM_INFINITY
    limit = _MAX_DESCRIPTORS if hard == unlimited else min(hard, _MAX_DESCRIPTORS)
    if soft != unlimited and soft < limit:
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, hard))
    return max(8, limit - max(64, limit // 4))


def _config(uvicorn: Any, app: AsgiApp, options: HTTPOptions) -> Any:
    tls: Mapping[str, Any] = {}
    if options.ssl_certfile:
        tls = {
            "ssl_keyfile": options.ssl_keyfile,
            "ssl_certfile": options.ssl_certfile,
            "ssl_keyfile_password": options.ssl_keyfile_password,
            "ssl_ca_certs": options.ssl_ca_certs,
            "ssl_cert_reqs": ssl.CERT_REQUIRED if options.ssl_ca_certs else ssl.CERT_NONE,
        }
    for middleware in options.middlewares:
        app = middleware.cls(app, *middleware.args, **middleware.kwargs)
    config = uvicorn.Config(
        app,
        http="httptools",
        lifespan="off",
        log_config=None,
        access_log=False,
        root_path=options.root_path,
        **tls,
    )
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)  # `asgi` tells what failed
    config.load()
    return config
