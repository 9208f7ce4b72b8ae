"""One connection: when a request of it begins, how large and how slow it may be, when it may move.

    bytes ─► held, until the head of the first request is whole ─► does another process answer?
                                                                      │ no
                 another process ◄── between two requests ── parser, front, response

A connection goes to another process only while no request of it is under way: before the first
one, or between two. Until the other process has it, it is kept here.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from skate.serve._http.answers import TASK

if TYPE_CHECKING:
    from skate.serve._http.server import Server

_LARGEST_HEAD_BYTES = 64 * 1024
_LINGER_SECONDS = 2.0  # for a client to read why it was refused, while it goes on sending

_REASONS = {
    400: b"Bad Request",
    408: b"Request Timeout",
    431: b"Request Header Fields Too Large",
}


class _HeadTooLargeError(Exception):
    """Ends the parsing of a request."""


def connection_class(base: Any, server: Server) -> Any:
    """Make uvicorn's protocol one that is held, limited and moved."""

    class Connection(base):  # type: ignore[misc]
        held = b""  # what came of a request that has not begun
        is_moving = False  # another process is being asked to take it
        ends = False  # the response to the next request is the last one
        _is_first = True  # no request has begun here or where it was before
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
            self._since = server.opened()
            super().connection_made(transport)
            if self.held:
                data, self.held = self.held, b""
                self._receive_first(data)
            if server.is_leaving:
                server.move_if_idle(self)

        def data_received(self, data: bytes) -> None:
            if self._is_refused:
                return
            if self.is_moving or self._waiting is not None:
                self._hold(data)
            elif self._is_first:
                self._receive_first(data)
            else:
                self.feed(data)

        # -- the first request -----------------------------------------------------------------

        def _receive_first(self, data: bytes) -> None:
            """Wait for the whole head, which says whose the connection is."""
            if not self.held:
                self._since = server.now
            data = self.held + data
            if may_be_head(data):
                self.held = b""
                self._hold(data)
                return
            self.held, self._is_first = b"", False
            if not server.pass_on(self, data):
                self.begin(data)

        def begin(self, data: bytes) -> None:
            """Answer the first request here, unless it waits for room anywhere."""
            self._waiting = server.wait_for_room(self, data)
            if self._waiting is None:
                self.feed(data)
            else:
                self.held = data

        def stay(self) -> None:
            """Go on here, as nobody else took it."""
            self.is_moving = False
            self.transport.resume_reading()
            data, self.held = self.held, b""
            if data and self._is_first:
                self._receive_first(data)
            elif data:
                self.begin(data)

        def release(self) -> None:
            """Answer what was held, now that there is room here."""
            data, self.held, self._waiting = self.held, b"", None
            self.feed(data)

        def stop_waiting(self) -> None:
            if self._waiting is not None:
                self._waiting.cancel()
                self._waiting = None

        def _hold(self, data: bytes) -> None:
            self.held += data
            if len(self.held) > _LARGEST_HEAD_BYTES:
                self.refuse(431)

        # -- limits ----------------------------------------------------------------------------

        def feed(self, data: bytes) -> None:
            """Have the parser read on."""
            self._piece = len(data)
            if not self._in_head:
                self._since = server.now
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
            before = self.cycle
            super().on_headers_complete()
            if (self.ends or server.is_ending) and self.cycle is not before:
                self.cycle.keep_alive = False

        def _head_size(self) -> int:
            return len(self.url) + sum(len(name) + len(value) + 4 for name, value in self.headers)

        def on_message_complete(self) -> None:
            self._unfinished -= 1
            super().on_message_complete()

        def send_400_response(self, msg: str) -> None:
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
                self.loop.call_later(_LINGER_SECONDS, self.transport.abort)
            else:
                self.transport.close()

        def look_at(self, now: float, patience: float, keep_alive: float) -> None:
            """End it if its client has begun a request and does not go on, or begins none, or does
            not read the response."""
            silent = now - self._since
            if self._reads_nothing(now, patience):
                self.transport.abort()
                return
            if self._is_refused or self.is_moving or self._waiting is not None:
                return
            if self.held or self._in_head:
                if silent > patience:
                    self.refuse(408)
            elif self._unfinished:
                waits_for_us = self.flow.read_paused or self.cycle.waiting_for_100_continue
                if silent > patience and not waits_for_us:
                    self.refuse(408)
            elif self.cycle is None and silent > keep_alive:
                self.transport.close()

        def _reads_nothing(self, now: float, patience: float) -> bool:
            unsent = self.transport.get_write_buffer_size()
            if not unsent or unsent != self._unsent:
                self._unsent, self._unsent_since = unsent, now
            return unsent > 0 and now - self._unsent_since > patience

        # -- ways out --------------------------------------------------------------------------

        @property
        def is_idle(self) -> bool:
            """Whether no request is under way, and all of the last response has gone."""
            answered = self.cycle is None or self.cycle.response_complete
            free = not (self._unfinished or self.pipeline or self.is_moving or self._is_refused)
            return answered and free and not self.transport.is_closing()

        @property
        def silent_since(self) -> float:
            return self._since

        def on_response_complete(self) -> None:
            super().on_response_complete()
            if server.is_leaving:
                server.move_if_idle(self)

        def prepare_to_move(self) -> None:
            self.is_moving = True
            self.stop_waiting()
            self._unset_keepalive_if_required()
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
            server.closed()
            if self.cycle is not None and not self.cycle.response_complete:
                self._give_up()
            # asyncio's transport refers to itself by this, and would wait for the garbage
            # collector; those of other loops may have no such dict.
            getattr(self.transport, "__dict__", {}).pop("_read_ready_cb", None)

        def _give_up(self) -> None:
            """Cancel the answer, for which nobody waits any more."""
            self.cycle.disconnected = True
            task = self.cycle.scope.get(TASK)
            if task is not None:
                task.cancel()

    return Connection


def websocket_class(base: Any, server: Server) -> Any:
    """Make uvicorn's protocol for websockets tell the server of its end."""

    class WebSocketConnection(base):  # type: ignore[misc]
        def connection_lost(self, exc: Exception | None) -> None:
            super().connection_lost(exc)
            server.closed()

    return WebSocketConnection


def is_whole_head(data: bytes) -> bool:
    return b"\r\n\r\n" in data


def may_be_head(data: bytes) -> bool:
    """Whether this is the beginning of a head, and not the whole; what is none is for the parser
    to refuse."""
    if is_whole_head(data):
        return False
    line, ended, _ = data.partition(b"\n")
    if ended:
        return line.endswith(b"\r") and line.count(b" ") == 2
    return not data or data[:1].isalpha()
