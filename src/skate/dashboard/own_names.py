"""By which names this machine may be asked.

A page elsewhere whose name was made to point here (DNS rebinding) has another one.
"""

from __future__ import annotations

import re

_OWN_NAMES = re.compile(rb"(127\.0\.0\.1|localhost|\[::1\])(:\d+)?")


def is_own_name(host: bytes) -> bool:
    """Return whether a Host header names this machine as only its own programs do.

    Args:
        host: What the header says.
    """
    return _OWN_NAMES.fullmatch(host) is not None
