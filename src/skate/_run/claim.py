"""One program at a time in a run's folder: two would delete each other's drafts, cut each other's
history, and give their checkpoints the same names."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator

from skate._run.storage import Storage


class FolderInUseError(RuntimeError):
    """Another run, of this program or of another, has the folder."""


@contextlib.contextmanager
def claimed(storage: Storage) -> Iterator[None]:
    """Have the folder for oneself. The lock is on the folder itself, and ends with the process
    however that ends. Folders that are elsewhere, and file systems without locks, have none."""
    if not storage.is_local:
        yield
        return
    folder = os.open(storage.local_path, os.O_RDONLY)
    try:
        _lock(folder, storage.path)
        try:
            yield
        finally:  # of processes too that were forked meanwhile
            _unlock(folder)
    finally:
        os.close(folder)


def _lock(folder: int, path: str) -> None:
    try:
        fcntl.flock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise FolderInUseError(
            f"a run that has not ended writes to {path!r}. Wait for it, end it, or give this one "
            "another RunConfig(name=…) or storage_path"
        ) from None
    except OSError:
        pass


def _unlock(folder: int) -> None:
    with contextlib.suppress(OSError):
        fcntl.flock(folder, fcntl.LOCK_UN)
