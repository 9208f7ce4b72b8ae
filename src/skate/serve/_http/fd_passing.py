"""Messages with descriptors between the processes of this machine.

Each process has an address: the path of a Unix socket in a folder that only this user may enter.
Both sides look at who the other is all the same.

    sender ── connect, message, descriptors ──► mailbox
           ◄── one byte, once it is taken ─────          (only `hand_over` waits for it)
"""

from __future__ import annotations

import array
import asyncio
import contextlib
import os
import secrets
import socket
from collections.abc import Callable, Sequence
from typing import BinaryIO

from skate._core.peer_credentials import is_own_process
from skate.serve._http.socket_folder import check_address, remove_socket

_LARGEST_MESSAGE_BYTES = 32 * 1024  # a larger one travels as a file in memory
_MAX_DESCRIPTORS = 8  # in a message
_TAKEN = b"+"
_WHOLE, _IN_FILE = b"w", b"f"  # how a message begins: it follows, or is in the last descriptor

OnMessage = Callable[[bytes, list[int]], None]


class DescriptorMailbox:
    """Takes the messages of other processes. They arrive on the event loop that made it."""

    def __init__(self, folder: str, on_message: OnMessage) -> None:
        self.address = os.path.join(folder, f"{os.getpid()}-{secrets.token_hex(4)}")
        self._on_message = on_message
        self._loop = asyncio.get_running_loop()
        self._coming: set[socket.socket] = set()  # connected, and nothing sent yet
        self._listener = _new_socket()
        self._listener.bind(check_address(self.address))
        self._listener.listen(1024)
        self._loop.add_reader(self._listener.fileno(), self._accept)

    def close(self) -> None:
        """Take what has been sent by now; whoever comes later notices that nobody takes it."""
        if self._listener.fileno() < 0:
            return
        self._loop.remove_reader(self._listener.fileno())
        remove_socket(self.address)
        while self._accept():
            pass
        self._listener.close()
        for connection in self._coming:
            self._loop.remove_reader(connection.fileno())
            connection.close()
        self._coming.clear()

    def _accept(self) -> bool:
        try:
            connection, _ = self._listener.accept()
        except OSError:
            return False
        connection.setblocking(False)
        if not is_own_process(connection):
            connection.close()
        elif not self._take(connection):
            self._coming.add(connection)
            self._loop.add_reader(connection.fileno(), self._came, connection)
        return True

    def _came(self, connection: socket.socket) -> None:
        self._loop.remove_reader(connection.fileno())
        self._coming.discard(connection)
        if not self._take(connection):
            connection.close()

    def _take(self, connection: socket.socket) -> bool:
        """Return whether there was anything; the sender learns that it was taken."""
        try:
            message, descriptors = _receive(connection)
        except BlockingIOError:
            return False
        except OSError:
            message, descriptors = b"", []
        with connection:
            if message:
                self._on_message(message, descriptors)
                with contextlib.suppress(OSError):  # it does not wait for an answer
                    connection.send(_TAKEN)
        return True


def send(address: str, message: bytes, descriptors: Sequence[int] = ()) -> None:
    """Send a message with descriptors.

    Raises:
        OSError: If nobody of ours listens there, or too many messages wait.
    """
    _offer(address, message, descriptors).close()


def nobody_listens(address: str) -> bool:
    """Return whether the process that got messages there has ended."""
    try:
        with _new_socket() as connection:
            connection.connect(check_address(address))
    except (ConnectionRefusedError, FileNotFoundError):
        return True
    except OSError:  # too many messages wait
        return False
    return False


async def hand_over(address: str, message: bytes, descriptors: Sequence[int]) -> bool:
    """Send a message; return whether the other process has taken it, however busy it is."""
    try:
        connection = _offer(address, message, descriptors)
    except OSError:
        return False
    with connection:
        try:
            return await asyncio.get_running_loop().sock_recv(connection, 1) == _TAKEN
        except OSError:
            return False


def _offer(address: str, message: bytes, descriptors: Sequence[int]) -> socket.socket:
    connection = _new_socket()
    try:
        connection.connect(check_address(address))
        if not is_own_process(connection):
            raise PermissionError(f"{address} belongs to another user")
        if len(message) <= _LARGEST_MESSAGE_BYTES:
            _send_with(connection, _WHOLE + message, descriptors)
        else:
            with _in_memory(message) as file:
                _send_with(connection, _IN_FILE, [*descriptors, file.fileno()])
    except BaseException:
        connection.close()
        raise
    return connection


def _send_with(connection: socket.socket, message: bytes, descriptors: Sequence[int]) -> None:
    rights = array.array("i", descriptors)
    connection.sendmsg([message], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, rights)])


def _receive(connection: socket.socket) -> tuple[bytes, list[int]]:
    message, descriptors, _, _ = socket.recv_fds(
        connection, _LARGEST_MESSAGE_BYTES + len(_WHOLE), _MAX_DESCRIPTORS
    )
    if message[:1] == _IN_FILE:
        with os.fdopen(descriptors.pop(), "rb") as file:
            return file.read(), descriptors
    return message[1:], descriptors


def _in_memory(message: bytes) -> BinaryIO:
    file = os.fdopen(os.memfd_create("skate-serve-message"), "w+b")
    file.write(message)
    file.seek(0)  # flushes it; the receiver reads from the same position
    return file


def _new_socket() -> socket.socket:
    new = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    new.setblocking(False)
    return new
