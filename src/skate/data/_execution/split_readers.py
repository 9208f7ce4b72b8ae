"""Who reads a part of a split, and whether that process still lives."""

from __future__ import annotations

import os
import socket
import threading
from typing import NamedTuple


class SplitReader(NamedTuple):
    """A process that reads. Its number is used again once it is gone, the start time is not."""

    place: str
    process: int
    started: str | None
    busy: bool  # the main thread reads, which does nothing else until it has what it waits for

    @classmethod
    def here(cls) -> SplitReader:
        busy = threading.current_thread() is threading.main_thread()
        return cls(_place(), os.getpid(), _start_time(os.getpid()), busy)

    def is_here(self) -> bool:
        return self.process == os.getpid() and self.place == _place()

    def may_have_died(self) -> bool:
        """Return whether it may be gone; a process of another machine always may."""
        return self.place != _place() or self.has_died()

    def has_died(self) -> bool:
        """Return whether it is known to be gone; nothing is known of processes of other
        machines."""
        if self.started is None or self.place != _place():
            return False
        return _start_time(self.process) != self.started


def _place() -> str:
    """Name the machine, and the container if there is one: where numbers of processes mean the
    same."""
    try:
        namespace = os.readlink("/proc/self/ns/pid")
    except OSError:
        namespace = ""
    return f"{socket.gethostname()} {namespace}"


def _start_time(process: int) -> str | None:
    """Read when a process started; None if it is gone or has ended."""
    try:
        with open(f"/proc/{process}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] in "ZX" else fields[19]
