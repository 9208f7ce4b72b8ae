"""Messages on their way between processes: numbers and tuples, many per system call.

    frame = length (4 bytes, little-endian) + marshal([message, message, …])
    message = (number of its type, (field, field, …))

`marshal` because both ends are the same interpreter and it is the fastest there is for tuples of
ints, bytes and strings: 0.25 µs a message here, pickle 0.4 µs.
"""

from __future__ import annotations

import marshal
import socket
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from skate.engine.local.messages import MESSAGES, RESULT, WORK, Slot, Work, WorkSettings

Message = tuple[Any, ...]

_MARSHAL_VERSION = 2  # without the back-reference table that newer versions build

# All connections of a process share it: only the leader receives, under the engine's lock. A new
# buffer per call would be mapped and unmapped each time, which costs more than the reading.
_buffer = memoryview(bytearray(1 << 18))


class Connection:
    """One end of a stream socket. `outbox` collects, `flush` writes, `receive` reads.

    Any thread may flush: frames are written whole and in order. Only the reactor's leader
    receives.
    """

    __slots__ = ("_inbox", "_unsent", "_writing", "closed", "listed", "outbox", "socket")

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self.socket: socket.socket = sock
        self.outbox: list[Message] = []
        self.closed: bool = False
        self.listed: bool = False  # in the reactor's list of those to be flushed
        self._inbox = bytearray()
        self._unsent = bytearray()  # what the kernel did not take yet
        self._writing = threading.Lock()

    def fileno(self) -> int:
        return self.socket.fileno()

    def flush(self) -> bool:
        """Write what was collected; False if the peer must read before the rest fits.

        Whoever finds another at it leaves its messages to that one. That other may be further up
        on the same stack: a garbage collection in here can run user code that prints.
        """
        while self._writing.acquire(blocking=False):
            try:
                self._write_collected()
            finally:
                self._writing.release()
            if not self.outbox or self._unsent:
                break
        return not self._unsent

    def finish(self) -> None:
        """Write everything, after whoever is at it: the process is about to end."""
        with self._writing:
            self._write_collected()

    def _write_collected(self) -> None:
        if self.closed:
            self.outbox = []
            self._unsent.clear()
            return
        if self._unsent:
            self._write(self._unsent)
        if self.outbox:
            messages, self.outbox = self.outbox, []
            body = marshal.dumps(messages, _MARSHAL_VERSION)
            self._write(len(body).to_bytes(4, "little") + body)

    def _write(self, data: bytes | bytearray) -> None:
        if data is not self._unsent and self._unsent:
            self._unsent += data
            return
        sent = 0
        try:
            sent = self.socket.send(data)
            while sent < len(data):
                sent += self.socket.send(memoryview(data)[sent:])
        except BlockingIOError:
            pass
        except OSError:  # the peer is gone: reading will tell
            sent = len(data)
        if data is self._unsent:
            del self._unsent[:sent]
        elif sent < len(data):
            self._unsent += memoryview(data)[sent:]

    def receive(self) -> list[Message] | None:
        """Return the messages that have come, or None when the peer is gone and all is read."""
        try:
            count = self.socket.recv_into(_buffer)
        except BlockingIOError:
            return []
        except OSError:
            return None
        if not count:
            return None
        if not self._inbox and count == 4 + int.from_bytes(_buffer[:4], "little"):
            messages: list[Message] = marshal.loads(_buffer[4:count])
            return messages
        self._inbox += _buffer[:count]
        return self._complete_frames()

    def drain(self) -> Iterator[list[Message]]:
        """Return all messages that can be read now: also behind one that is read in several
        parts."""
        while True:
            before = len(self._inbox)
            received = self.receive()
            if received:
                yield received
            elif received is None or len(self._inbox) == before:
                return

    def _complete_frames(self) -> list[Message]:
        messages: list[Message] = []
        inbox, position = self._inbox, 0
        with memoryview(inbox) as view:
            while len(inbox) - position >= 4:
                end = position + 4 + int.from_bytes(view[position : position + 4], "little")
                if end > len(inbox):
                    break
                messages += marshal.loads(view[position + 4 : end])
                position = end
        if position:
            del inbox[:position]
        return messages

    def detach_in_child(self) -> None:
        """Detach in a forked child: the socket is the parent's, and so is what was to be
        written."""
        self.closed = True
        self.outbox = []
        self._unsent = bytearray()
        self._writing = threading.Lock()
        self.socket.close()

    def close(self) -> None:
        with self._writing:
            self.closed = True
            self.socket.close()


# -- messages as they are written ----------------------------------------------------------------

_NUMBERS: dict[type[tuple[Any, ...]], int] = {kind: n for n, kind in enumerate(MESSAGES)}


def encode(message: tuple[object, ...]) -> Message:
    """Return a message as it is written."""
    return _NUMBERS[type(message)], tuple(message)


def by_number(handlers: Mapping[Any, Callable[..., None]]) -> dict[int, Callable[..., None]]:
    """Return the handlers of types of messages by the numbers of these."""
    return {_NUMBERS[kind]: handler for kind, handler in handlers.items()}


# What every task and call needs, without the named tuple, which takes five times as long to make
# as all the rest of its way to the outbox.


def encode_work(
    operation: int,
    id: int,
    target: int | str,
    kind: int,
    data: object,
    dependencies: Sequence[tuple[Slot, int, object, int]] | None,
    num_returns: int,
    settings: WorkSettings | None,
) -> Message:
    """Return a `Work` as it is written."""
    return WORK, (operation, id, target, kind, data, dependencies, num_returns, settings)


def encode_result(
    id: int, kind: int, data: object, contained: Sequence[int], micros: int
) -> Message:
    """Return a `WorkResult` as it is written."""
    return RESULT, (id, kind, data, contained, micros)


def decode_work(fields: tuple[object, ...]) -> Work:
    """Return the work that was written as these fields."""
    return _bare(Work, fields)


_bare = tuple.__new__
