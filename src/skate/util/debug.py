"""Messages that should appear once per process."""

from __future__ import annotations

import time

_PERIOD_SECONDS = 60

_logged: dict[str, float] = {}  # key -> when it was last new
_disabled = False
_periodic = False


def log_once(key: str) -> bool:
    """True the first time it is asked about `key` in this process, False from then on.

    After `enable_periodic_logging()` it is True again for a `key` once a minute.
    """
    if _disabled:
        return False
    now = time.monotonic()
    if key in _logged and not (_periodic and now - _logged[key] > _PERIOD_SECONDS):
        return False
    _logged[key] = now
    return True


def enable_periodic_logging() -> None:
    """From now on `log_once` is True once a minute for each key, in this process."""
    global _periodic
    _periodic = True


def disable_log_once_globally() -> None:
    """From now on `log_once` is False for every key, in this process."""
    global _disabled
    _disabled = True


def reset_log_once(key: str | None = None) -> None:
    """Forget that `key`, or with None every key, has been asked about."""
    if key is None:
        _logged.clear()
    else:
        _logged.pop(key, None)
