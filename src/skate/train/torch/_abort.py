"""Collectives that wait for a peer that is gone, ended from outside.

gloo notices that a connection is closed, but only in an operation that uses it: others wait for
survivors, which wait as well. NCCL notices nothing. So all connections of the group are shut down,
and whatever waits for one of them fails at once.

They are shut down for reading only, and stay open until the next group is made, although gloo
closes its side: it forgets to end an operation whose *sending* fails, which waits for its timeout
then. A survivor can send until its own connections are shut down, so that does not happen to it.
"""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from skate.train._workers.worker import LOOP_THREAD

LOOKS, LOOK_SECONDS = 10, 0.1  # at a thread, which does nothing in all of them if it waits
SLEEPING = "S"
USER_TIME, SYSTEM_TIME = 10, 11  # among the numbers after the state in a thread's `stat`
_TORCH = f"{os.sep}torch{os.sep}"

_before: set[str] = set()  # sockets that were there before the process group was made,
_connected: set[str] | None = None  # and after that; None while it is being made
_shut: list[socket.socket] = []  # connections of the last group, which others may still send to


@contextlib.contextmanager
def noting_sockets() -> Iterator[None]:
    """Know which sockets are those of the process group that is made in this block."""
    global _connected
    while _shut:
        _shut.pop().close()
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
    """Find the descriptors of sockets by what the system calls these, which is used once only."""
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
            _shut.append(connection.dup())
            connection.shutdown(socket.SHUT_RD)


def waits_in_vain() -> bool:
    """Return whether the loop of this worker waits inside torch for what has been ended, so that
    nothing will ever come of it."""
    loop = next((t for t in threading.enumerate() if t.name == LOOP_THREAD), None)
    if loop is None or loop.ident is None:
        return False
    first = None
    for _ in range(LOOKS):
        time.sleep(LOOK_SECONDS)
        frame = sys._current_frames().get(loop.ident)
        if frame is None or _TORCH not in frame.f_code.co_filename:
            return False
        status = Path(f"/proc/self/task/{loop.native_id}/stat").read_text().rpartition(")")[2]
        state, *numbers = status.split()
        seen = (id(frame), frame.f_lasti, numbers[USER_TIME : SYSTEM_TIME + 1])
        first = first or seen
        if state != SLEEPING or seen != first:
            return False
    return True
