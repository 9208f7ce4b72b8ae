"""One response on its way to the socket: its head and what follows at once are one piece.

A server writes the head, and then the body: two system calls, and two wake-ups of the client, for
a few hundred bytes. The head waits for the body here, until the task that answers waits for
something itself:

    write(head) ─► held ─┬─ write(body) in the same step of the event loop ─► head + body
                         └─ the step is over, as with a stream ─► head
"""

from __future__ import annotations

import asyncio
from typing import Any

_LARGE_BYTES = 64 * 1024  # copying so much takes longer than a second system call


class JoinedHead:
    """The transport of one response."""

    __slots__ = ("_head", "_loop", "_transport", "_was_held")

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""
        self._was_held = False

    def write(self, data: bytes) -> None:
        """Hold the first piece, and send all others."""
        head = self._head
        if head and len(data) <= _LARGE_BYTES:
            self._head = b""
            self._transport.write(head + data)
        elif self._was_held:
            self._flush()
            self._transport.write(data)
        else:
            self._was_held = True
            self._head = data
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        head, self._head = self._head, b""
        if head:
            self._transport.write(head)

    def is_closing(self) -> bool:
        """Return whether the connection ends."""
        return self._transport.is_closing()

    def close(self) -> None:
        """End the connection, when all has been sent."""
        self._flush()
        self._transport.close()

    def __getattr__(self, name: str) -> Any:
        """Return what else a uvicorn may ask of a transport, which holds nothing by then."""
        self._flush()
        return getattr(self._transport, name)
