"""Who is at the other end of a Unix socket, by what the kernel says."""

from __future__ import annotations

import os
import socket
import struct

_CREDENTIALS = struct.Struct("3i")  # process, user, group


def user_of_peer(connection: socket.socket) -> int:
    """Return the user whose process is at the other end of a Unix socket."""
    found = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    user: int = _CREDENTIALS.unpack(found)[1]
    return user


def is_own_process(connection: socket.socket) -> bool:
    """Return whether a process of this user is at the other end of a Unix socket."""
    return user_of_peer(connection) == os.geteuid()
