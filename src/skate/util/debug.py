"""Messages that should appear once per process."""

from __future__ import annotations

import time

_PERIOD_SECONDS = 60

_logged: dict[str, float] = {}  # key -> when it was last new
_disabled = False
_periodic = False


def log_once(key: str) -> bool:
    """Return True the first time that it is asked about a key in this process, then False.

    After `enable_periodic_logging()` it is True again once a minute.

    Args:
        key: What the message is about.

    Example:
        >>> skate.util.log_once("slow disk"), skate.util.log_once("slow disk")
        (True, False)
    """
    if _disabled:
        return False
    now = time.monotonic()
    if key in _logged and not (_periodic and now - _logged[key] > _PERIOD_SECONDS):
        return False
    _logged[key] = now
    return True


def enable_periodic_logging() -> None:
    """Make `log_once` return True once a minute for each key, in this process."""
    global _periodic
    _periodic = True


def disable_log_once_globally() -> None:
    """Make `log_once` return False for every key, in this process."""
    global _disabled
    _disabled = True


def reset_log_once(key: str | None = None) -> None:
    """Forget what `log_once` has been asked about.

    Args:
        key: What to forget; None for every key.
    """
    if key is None:
        _logged.clear()
    else:
        _logged.pop(key, None)
