"""Folders that one program has for itself while it writes there."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator


@contextlib.contextmanager
def locked_folder(path: str) -> Iterator[None]:
    """Have a folder of this machine for oneself.

    The lock is on the folder itself, and ends with the process however that ends. File systems
    without locks have none.

    Raises:
        BlockingIOError: If somebody has it, in this process or in another.
    """
    folder = os.open(path, os.O_RDONLY)
    try:
        _lock(folder)
        try:
            yield
        finally:  # of processes too that were forked meanwhile
            with contextlib.suppress(OSError):
                fcntl.flock(folder, fcntl.LOCK_UN)
    finally:
        os.close(folder)


def _lock(folder: int) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise
    except OSError:
        pass
