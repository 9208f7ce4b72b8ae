"""One connection: how large and slow its requests may be, and when it may move.

    bytes ─► parser ─► a head is whole: does another process answer? ─ yes ─► moves, with its bytes
                              │ no
             asgi, response ◄─┘ ─► between two requests: may move

A connection goes to another process only while no request of it is under way: before the first
one, or between two. Until the other process has it, it is kept here, and with it (`held`) the
bytes of a request that has not begun: whoever answers it parses them.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import unquote

from skate._core.optional_imports import try_import
from skate.serve._http.answers import TASK
from skate.serve._http.joined_head import JoinedHead

if TYPE_CHECKING:
    from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol as _UvicornProtocol

    from skate.serve._http.listener import Listener
else:
    _UvicornProtocol = object  # which one it is, uvicorn decides

_LARGEST_HEAD_BYTES = 64 * 1024
_REFUSAL_SECONDS = 2.0  # for a client to read why it was refused, while it goes on sending

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
}


class _HeadTooLargeError(Exception):
    """Ends the parsing of a request that is refused."""


class _HostError(Exception):
    """Ends the parsing of a request of which two readers could think differently whose it is."""


class _NotHereError(Exception):
    """Ends the parsing of a request that begins elsewhere, or later."""


class MovableConnection(Protocol):
    """What the listener knows of a connection."""

    held: bytes
    ends: bool
    transport: asyncio.Transport

    @property
    def is_idle(self) -> bool: ...

    def prepare_to_move(self) -> None: ...

    def begin_here(self) -> None: ...

    def stay(self) -> None: ...

    def end_soon(self) -> None: ...


class HttpConnection(_UvicornProtocol):
    """Mixin for uvicorn's protocol: requests have limits, and the connection may move."""

    listener: Listener  # of the process
    cycle: Any  # the newest request and its response; None before the first
    held = b""  # what came of a request that has not begun
    is_moving = False  # another process is being asked to take it
    ends = False  # the response to the next request is the last one
    _is_first = True  # no head has been whole, so that the connection may be somebody else's
    _has_room = False  # it has waited for room, and has it
    _is_refused = False  # nothing more is read but to be thrown away
    _unfinished = 0  # requests of which only a part has come
    _in_head = False
    _refusal = 400  # for what the parser does not read
    _fed = 0  # bytes of the head that is being read, without the piece that it began in
    _piece = 0  # bytes that are being fed
    _since = 0.0  # when the client was last heard of; in a head, when that began
    _unsent = 0  # bytes of responses, when it was last looked at
    _unsent_since = 0.0
    _waiting: asyncio.Task[None] | None = None  # for room, as a websocket does

    def connection_made(self, transport: Any) -> None:
        self._since = self.listener.opened()
        super().connection_made(transport)
        if self.held:  # by the process that had the connection before
            data, self.held = self.held, b""
            self.data_received(data)
        if self.listener.is_leaving:
            self.listener.move_if_idle(self)

    def data_received(self, data: bytes) -> None:
        if self._is_refused:
            return
        if self.is_moving or self._waiting is not None:
            self._hold(data)
            return
        if self._is_first or self.held:
            if len(self.held) > _LARGEST_HEAD_BYTES:
                self.refuse(431)
                return
            self.held += data
        self._feed(data)

    # -- requests that may begin elsewhere -------------------------------------------------

    def _goes_elsewhere(self, is_first: bool) -> bool:
        """Return whether the request whose head is whole does not begin here, or not yet."""
        path = path_of(self.url)
        if is_first and self.listener.pass_on(self, path):
            return True
        if self.parser.should_upgrade() and not self._has_room:
            self._waiting = self.listener.wait_for_room(self, path)
        return self._waiting is not None

    def stay(self) -> None:
        """Go on here, as nobody else took it."""
        self.is_moving = False
        self.transport.resume_reading()
        self._parse_again()

    def begin_here(self) -> None:
        """Answer what was held, now that there is room here."""
        self._waiting, self._has_room = None, True
        self._parse_again()

    def _parse_again(self) -> None:
        """Read what was held from its beginning."""
        if self.held:
            self.parser = _new_parser(self)
            self._unfinished, self._in_head, self._fed = 0, False, 0
            self._feed(self.held)

    def stop_waiting(self) -> None:
        """Wait for room no longer."""
        if self._waiting is not None:
            self._waiting.cancel()
            self._waiting = None

    def _hold(self, data: bytes) -> None:
        self.held += data
        if len(self.held) > _LARGEST_HEAD_BYTES:
            self.refuse(431)

    # -- limits ----------------------------------------------------------------------------

    def _feed(self, data: bytes) -> None:
        """Have the parser read on."""
        self._piece = len(data)
        if not self._in_head:
            self._since = self.listener.now
        super().data_received(data)
        if self._in_head and self._fed > _LARGEST_HEAD_BYTES:
            self.refuse(431)
        elif self._in_head:
            self._fed += self._piece

    def on_message_begin(self) -> None:
        self._unfinished += 1
        self._in_head, self._fed = True, 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._in_head = False
        came = self._fed + self._piece  # with what may be of other requests
        if came > _LARGEST_HEAD_BYTES and self._head_size() > _LARGEST_HEAD_BYTES:
            self._refusal = 431
            raise _HeadTooLargeError
        named = dict(self.headers)
        if (len(named) < len(self.headers) or b"host" not in named) and not self._names_its_host():
            raise _HostError
        is_first, self._is_first = self._is_first, False
        if self.held and self._goes_elsewhere(is_first):
            raise _NotHereError
        self.held = b""
        before = self.cycle
        super().on_headers_complete()
        cycle = self.cycle
        if cycle is before:
            return  # a websocket
        # Nothing follows the head after HEAD, and what comes first may not be the head.
        if self.scope["method"] != "HEAD" and not self.expect_100_continue:
            cycle.transport = JoinedHead(self.transport, self.loop)
        if self.ends or self.listener.is_ending:
            cycle.keep_alive = False

    def _head_size(self) -> int:
        return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

    def _names_its_host(self) -> bool:
        """Return whether there is one Host, which requests of HTTP/1.0 may leave out."""
        hosts = sum(name == b"host" for name, _ in self.headers)
        return hosts == 1 or (hosts == 0 and self.parser.get_http_version() == "1.0")

    def on_chunk_header(self) -> None:
        """Expect trailers, until a body comes: they are limited as a head is, and dropped. Else
        they would be added to the headers that the application has, unseen by a proxy."""
        self._in_head, self._fed = True, 0
        if self.cycle is not None and self.cycle.scope is self.scope:
            self.headers = []

    def on_chunk_complete(self) -> None:
        self._in_head = False

    def on_body(self, body: bytes) -> None:
        self._in_head = False
        super().on_body(body)

    def on_message_complete(self) -> None:
        self._unfinished -= 1
        super().on_message_complete()

    def handle_websocket_upgrade(self) -> None:
        if self.scope["method"] == "GET":
            super().handle_websocket_upgrade()
        else:
            self.refuse(400)

    def send_400_response(self, msg: str) -> None:
        """Refuse what the parser did not read; a request that begins elsewhere is held."""
        if not self.is_moving and self._waiting is None:
            self.refuse(self._refusal)

    def refuse(self, status: int) -> None:
        """Say why, and end the connection; a response that has begun is only cut off."""
        if self._is_refused or self.transport.is_closing():
            return
        self._is_refused = True
        self.held = b""
        self.stop_waiting()
        if self.cycle is not None and not self.cycle.response_complete:
            if self.cycle.response_started or self.pipeline:
                self.transport.close()
                return
            self._give_up()
        reason = _REASONS[status]
        length = b"%d" % len(reason)
        head = b"HTTP/1.1 %d %s\r\nconnection: close\r\n" % (status, reason)
        kind = b"content-type: text/plain; charset=utf-8\r\ncontent-length: " + length
        self.transport.write(head + kind + b"\r\n\r\n" + reason)
        if self.transport.can_write_eof():
            self.transport.write_eof()  # closing what is unread would take the answer back
            self.loop.call_later(_REFUSAL_SECONDS, self.transport.abort)
        else:
            self.transport.close()

    def end_if_slow(self, now: float, receive_seconds: float, idle_seconds: float) -> None:
        """End it if its client has begun a request and does not go on, or begins none, or does
        not read the response."""
        silent = now - self._since
        if self._reads_nothing(now, receive_seconds):
            self.transport.abort()
            return
        if self._is_refused or self.is_moving or self._waiting is not None:
            return
        if self._unfinished:
            if self._waits_for_us():
                self._since = now
            elif silent > receive_seconds:
                self.refuse(408)
        elif silent > idle_seconds and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def _waits_for_us(self) -> bool:
        """Return whether the client may not go on with its request before we do."""
        if self.flow.read_paused:
            return True
        return self.cycle is not None and bool(self.cycle.waiting_for_100_continue)

    def _reads_nothing(self, now: float, seconds: float) -> bool:
        unsent = self.transport.get_write_buffer_size()
        if not unsent or unsent != self._unsent:
            self._unsent, self._unsent_since = unsent, now
        return unsent > 0 and now - self._unsent_since > seconds

    # -- ways out --------------------------------------------------------------------------

    @property
    def is_idle(self) -> bool:
        """Whether no request is under way, and all of the last response has gone."""
        answered = self.cycle is None or self.cycle.response_complete
        begun = self._unfinished and not self.held
        free = not (begun or self.pipeline or self.is_moving or self._is_refused)
        return answered and free and not self.transport.is_closing()

    @property
    def silent_since(self) -> float:
        """When the client was last heard of."""
        return self._since

    def on_response_complete(self) -> None:
        """Go on as uvicorn does, but without a timer where no request waits: the listener ends
        silent connections."""
        self._since = self.listener.now
        if self.pipeline:
            super().on_response_complete()
            return
        self.server_state.total_requests += 1
        if self.transport.is_closing():
            return
        self.flow.resume_reading()
        if self.listener.is_leaving:
            self.listener.move_if_idle(self)

    def prepare_to_move(self) -> None:
        """Read nothing more, and wait for nothing, while another process is asked."""
        self.is_moving = True
        self.stop_waiting()
        self.transport.pause_reading()

    def end_soon(self) -> None:
        """Tell the client that the next response is the last one, or the one under way."""
        self.ends = True
        cycle = self.cycle
        if cycle is not None and not cycle.response_started and not self.pipeline:
            cycle.keep_alive = False

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self.stop_waiting()
        self.listener.closed()
        if self.cycle is not None and not self.cycle.response_complete:
            self._give_up()
        # asyncio's transport refers to itself by this, and would wait for the garbage
        # collector; those of other loops may have no such dict.
        getattr(self.transport, "__dict__", {}).pop("_read_ready_cb", None)

    def _give_up(self) -> None:
        """Cancel the answer, for which nobody waits any more."""
        self.cycle.disconnected, self.cycle.waiting_for_100_continue = True, False
        task = self.cycle.scope.get(TASK)
        if task is not None:
            task.cancel()


def http_protocol_class(base: type, listener: Listener) -> Any:
    """Make uvicorn's protocol for HTTP one that is limited, and whose connection may move."""
    return type("HttpConnection", (HttpConnection, base), {"listener": listener})


def websocket_protocol_class(base: Any, listener: Listener) -> Any:
    """Make uvicorn's protocol for websockets tell the listener of its end."""

    class WebSocketConnection(base):  # type: ignore[misc]
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            listener.closed()

    return WebSocketConnection


def path_of(url: bytes) -> str:
    """Return the path of a request, as the ASGI application will see it; "" if it has none."""
    httptools = try_import("httptools", "serve")
    try:
        path = httptools.parse_url(url).path
    except httptools.HttpParserInvalidURLError:
        return ""  # which the parser refuses
    return unquote((path or b"").decode("latin-1"))


def _new_parser(connection: Any) -> Any:
    """Make a parser as uvicorn does, which has read nothing."""
    parser = type(connection.parser)(connection)
    with contextlib.suppress(AttributeError):  # httptools < 0.6.3
        parser.set_dangerous_leniencies(lenient_data_after_close=True)
    return parser
