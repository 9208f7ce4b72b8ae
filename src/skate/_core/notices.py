"""What a running program says by itself: single lines on standard error, all of them from here.

    skate: get() (train.py:31) has waited 10 s: B.f needs CPU: 2, of which CPU: 0 is free; …

`SKATE_QUIET=1` turns all of it off. `init(log_level=...)`, or the level of the logger "skate" (of
"ray" in programs that import ray), chooses: with "WARNING" nothing that is only good to know
(`say`), with "ERROR" nothing that should be looked at either (`warn`).
"""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from skate._core.standard_streams import say as write_line

if TYPE_CHECKING:
    from logging import Logger

_INFO, _WARNING = 20, 30  # as in `logging`, which need not be loaded for this

_said: set[str] = set()
_waits = threading.local()


def say(text: str) -> None:
    """Write a line that is good to know."""
    if enabled(_INFO):
        write_line(sys.stderr, f"skate: {text}")


def warn(text: str) -> None:
    """Write a line about what probably should be different."""
    if enabled(_WARNING):
        write_line(sys.stderr, f"skate: {text}")


def once(key: str, text: str) -> None:
    """Warn of something that is the same each time it happens, the first time."""
    if key not in _said:
        _said.add(key)
        warn(text)


@contextmanager
def patient() -> Iterator[None]:
    """Say nothing of waits in this block, in this thread: they are to last."""
    before = is_patient()
    _waits.patient = True
    try:
        yield
    finally:
        _waits.patient = before


def is_patient() -> bool:
    """Return whether a wait of this thread may last without a word."""
    return getattr(_waits, "patient", False)


def enabled(level: int = _INFO) -> bool:
    """Return whether lines of a level are written."""
    if os.environ.get("SKATE_QUIET", "0") not in ("", "0"):
        return False
    logging = sys.modules.get("logging")
    return logging is None or level >= _chosen(logging.getLogger("skate"))


def _chosen(logger: Logger | None) -> int:
    """Return the level of a logger, or of those above it but for the root; 0: nobody chose."""
    while logger is not None and logger.parent is not None:
        if logger.level:
            return logger.level
        logger = logger.parent
    return 0
