"""Messages with descriptors between the processes of this machine.

Each process has a place: a Unix socket in the abstract namespace, which leaves no file behind
however the process ends. Anybody may see the names there, so both sides look at who the other is.
"""

from __future__ import annotations

import array
import asyncio
import os
import secrets
import socket
import struct
from collections.abc import Callable, Sequence
from typing import Any

LARGEST = 64 * 1024  # bytes in a message; more would not fit into every socket's buffer
_MOST = 8  # descriptors in a message

Receive = Callable[[bytes, list[int]], None]


class Mailbox:
    """The place of this process. Messages arrive on the event loop that made it."""

    def __init__(self, on_message: Receive) -> None:
        self.place = f"skate-serve-{os.getpid()}-{secrets.token_hex(8)}"
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._listener = _new_socket()
        self._listener.bind(_address(self.place))
        self._listener.listen(1024)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """What has been sent by now is still received."""
        if self._listener.fileno() >= 0:
            self._loop.remove_reader(self._listener.fileno())
            while self._accept():
                pass
            self._listener.close()

    def _accept(self) -> bool:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return False
        with connection:
            message, descriptors = _receive(connection) if is_ours(connection) else (b"", [])
        if message:
            self._on_message(message, descriptors)
        return True


def send(place: str, message: bytes, descriptors: Sequence[int] = ()) -> None:
    """Raises OSError where nobody of ours listens, or too many messages wait there."""
    if len(message) > LARGEST:
        raise OSError(f"a message of {len(message)} bytes, more than {LARGEST}")
    with _new_socket() as connection:
        connection.connect(_address(place))
        if not is_ours(connection):
            raise PermissionError(f"{place} belongs to another user")
        rights = array.array("i", descriptors)
        connection.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    # Whoever connects has its message ready: it is sent in the same breath.
    connection.settimeout(1)
    message, descriptors, _, _ = socket.recv_fds(connection, LARGEST, _MOST)
    return message, descriptors


def _new_socket() -> socket.socket:
    new = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    new.setblocking(False)
    return new


def _address(place: str) -> bytes:
    return b"\0" + place.encode()


def is_ours(connection: Any) -> bool:
    """Whether the other end of a Unix socket is a process of the same user."""
    size = struct.calcsize("3i")
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, size)
    _, user, _ = struct.unpack("3i", credentials)
    return bool(user == os.getuid())
