"""Which engine runs this process's work."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.engine.base import Engine

_current: Engine | None = None

changing: threading.RLock = threading.RLock()  # held while an engine is started or shut down


def current_engine() -> Engine:
    """The engine of this process; the first use starts the default one."""
    if _current is None:
        from skate._facade.api import init

        init()
        assert _current is not None
    return _current


def installed_engine() -> Engine | None:
    """The engine of this process, or None before `init`."""
    return _current


def install_engine(engine: Engine | None) -> None:
    """Make `engine` the one that the façade uses."""
    global _current
    _current = engine
