"""What `ps` and `top` show of worker processes: `skate::f`, `skate::Actor.method`.

With the package setproctitle the whole command line; otherwise the name of the process, of which
the system keeps 15 characters.
"""

from __future__ import annotations

import os
from collections.abc import Callable

_COMM = "/proc/self/comm"


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
        self._prefix = prefix
        self._set: Callable[[str], object] | None = None  # found when first needed

    def show(self, name: str) -> None:
        """Show that the process is busy with `name`."""
        if self._set is None:
            self._set = _setter()
        self._set(f"{self._prefix}::{name}")


def _setter() -> Callable[[str], object]:
    try:
        from setproctitle import setproctitle

        return setproctitle
    except ImportError:
        pass
    try:
        file = os.open(_COMM, os.O_WRONLY | os.O_CLOEXEC)
    except OSError:  # a system without it
        return lambda title: None

    def set_name(title: str) -> None:
        os.write(file, title.encode()[:15])

    return set_name
