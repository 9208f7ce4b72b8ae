"""Collectives that wait for a peer that is gone, ended from outside.

gloo notices that a connection is closed, but only in an operation that uses it: others wait for
survivors, which wait as well. NCCL notices nothing. So all connections of the group are shut down,
and whatever waits for one of them fails at once.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator

_before: set[str] = set()  # sockets that were there before the process group was made,
_connected: set[str] | None = None  # and after that; None while it is being made


@contextlib.contextmanager
def noting_sockets() -> Iterator[None]:
    """Know which sockets are those of the process group that is made in this block."""
    global _connected
    _before.clear()
    _before.update(_sockets())
    _connected = None
    yield
    _connected = set(_sockets())


def abort() -> None:
    """Have all operations of the process group fail, those under way and those to come."""
    import torch.distributed as dist

    if dist.is_initialized() and dist.get_backend() == "nccl":
        dist.distributed_c10d._abort_process_group()
        return
    for name, descriptor in _sockets().items():
        if name not in _before and (_connected is None or name in _connected):
            _shut_down(descriptor)


def _sockets() -> dict[str, int]:
    """The descriptors of sockets by what the system calls these, which is used once only."""
    found = {}
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        with contextlib.suppress(OSError):
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            if name.startswith("socket:"):
                found[name] = descriptor
    return found


def _shut_down(descriptor: int) -> None:
    """Shut down a connection by TCP; gloo does not survive that of a socket that listens."""
    with (
        contextlib.suppress(OSError),  # it is gone, or not connected
        socket.socket(fileno=os.dup(descriptor)) as connection,
    ):
        if connection.family in (socket.AF_INET, socket.AF_INET6):
            connection.getpeername()
            connection.shutdown(socket.SHUT_RDWR)
