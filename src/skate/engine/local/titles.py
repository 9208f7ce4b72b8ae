"""What `ps` and `top` show of worker processes: `skate::f`, `skate::Actor.method`, `skate::IDLE`.

The command line is that of the fork server, whose memory the title is written over: by the package
setproctitle, if it is there, otherwise by ourselves. The name of the process, of which the system
keeps 15 characters, says the same.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_COMM = "/proc/self/comm"
_IDLE = "IDLE"


def load_setproctitle() -> None:
    """Import the package, if it is there, so that forks of this process have it.

    It makes room for titles by moving the environment, unless told not to: `/proc/<pid>/environ`
    should stay readable, and a fork server's command line is long enough.
    """
    os.environ["SPT_NOENV"] = "1"
    try:
        import setproctitle

        setproctitle.setproctitle("skate::forkserver")
    except ImportError:
        pass
    finally:
        del os.environ["SPT_NOENV"]


class Title:
    """The title of this process."""

    def __init__(self, prefix: str) -> None:
        self.shown: str = ""  # what the process is busy with
        self._prefix = prefix
        self._set: Callable[[str], object] | None = None  # found when first needed

    def show(self, name: str) -> None:
        """Show that the process is busy with `name`."""
        self.shown = name
        if self._set is None:
            self._set = _setter()
        self._set(f"{self._prefix}::{name}")

    def show_idle(self, actor: str) -> None:
        """Show that the process waits for work; `actor` is the class of the one that it has."""
        self.show(actor or _IDLE)


def _setter() -> Callable[[str], object]:
    try:
        from setproctitle import setproctitle

        return setproctitle
    except ImportError:
        pass
    try:
        name = os.open(_COMM, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # a system without it
        return lambda title: None
    set_line = _line_setter()

    def set_name(title: str) -> None:
        os.write(name, title.encode()[:15])
        set_line(title)

    return set_name


def _line_setter() -> Callable[[str], object]:
    """Return what writes over the command line, where the system allows it."""
    try:
        with open("/proc/self/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
        start, end = int(fields[45]), int(fields[46])
        memory = os.open("/proc/self/mem", os.O_RDWR | os.O_CLOEXEC)
        if end <= start or not os.pread(memory, end - start, start).endswith(bytes(1)):
            raise OSError("it is not where it should be")
    except (OSError, IndexError, ValueError):
        return lambda title: None
    room = end - start - 1  # the last byte stays 0: otherwise the system looks further

    def set_line(title: str) -> None:
        os.pwrite(memory, title.encode()[:room].ljust(room, bytes(1)), start)

    return set_line
