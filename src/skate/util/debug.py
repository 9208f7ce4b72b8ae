"""Messages that should appear once per process."""

from __future__ import annotations

_logged: set[str] = set()
_disabled = False


def log_once(key: str) -> bool:
    """True the first time it is asked about `key` in this process, False from then on."""
    if _disabled or key in _logged:
        return False
    _logged.add(key)
    return True


def disable_log_once_globally() -> None:
    """From now on `log_once` is False for every key, in this process."""
    global _disabled
    _disabled = True


def reset_log_once(key: str | None = None) -> None:
    """Forget that `key`, or with None every key, has been asked about."""
    if key is None:
        _logged.clear()
    else:
        _logged.discard(key)
