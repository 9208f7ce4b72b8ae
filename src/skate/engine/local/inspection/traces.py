"""What a process has in the folder of its session, for others to look into it."""

from __future__ import annotations

import os
from contextlib import suppress

SOCKET_PREFIX = "ask-"  # and the number of the process: the name of its socket
DUMP_PREFIX = "stack-"  # the same: of the file with its stacks


def remove_traces(home: str, pid: int) -> None:
    """Remove what a process that has ended leaves there."""
    for prefix in (SOCKET_PREFIX, DUMP_PREFIX):
        with suppress(OSError):
            os.unlink(os.path.join(home, f"{prefix}{pid}"))
