"""The port for the measurements of this process's session, if `init` was asked for one."""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skate._core import notices
from skate._core.argument_checks import wrong_value
from skate._core.measurements import note_port

if TYPE_CHECKING:
    from skate.dashboard.metrics_port import MetricsPort
    from skate.engine.base import Engine

_HAVE_PROCESSES = {"local": True, "inline": False}

_port: MetricsPort | None = None


@contextmanager
def offered(port: object) -> Iterator[Callable[[Engine], None]]:
    """Reserve a port before the session is begun; yield what answers on it.

    A port that is taken is a warning: the program does not depend on it.

    Args:
        port: Its number; 0 takes a free one, None means that nobody collects.
    """
    if port is not None and (type(port) is not int or not 0 <= port < 65536):
        raise wrong_value("_metrics_export_port", port, "a number below 65,536, or None")
    found = None if port is None or _port is not None else _reserved(port)
    if found is None:
        yield lambda engine: None
        return

    def answer(engine: Engine) -> None:
        global _port
        if engine.address not in _HAVE_PROCESSES:
            notices.warn("sessions on Ray clusters have Ray's own port for metrics")
            return
        found.open(_HAVE_PROCESSES[engine.address])
        _port = found
        note_port(found.port)
        atexit.register(close)

    try:
        yield answer
    finally:
        if _port is not found:
            found.close()


def _reserved(port: int) -> MetricsPort | None:
    from skate.dashboard.metrics_port import MetricsPort

    try:
        return MetricsPort(port)
    except OSError as error:
        notices.warn(f"nobody can collect metrics on port {port}: {error.strerror}")
        return None


def number() -> int | None:
    """Return the number of the port; None if there is none."""
    return _port.port if _port is not None and _port.pid == os.getpid() else None


def close() -> None:
    """Give the port back."""
    global _port
    if _port is not None:
        found, _port = _port, None
        note_port(0)
        atexit.unregister(close)
        found.close()
