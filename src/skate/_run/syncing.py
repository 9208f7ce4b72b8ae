"""Files and folders brought to the disk: what is only in the system's memory survives the death of
every process, and not a power cut.
"""

from __future__ import annotations

import errno
import os

# A file system that cannot do it for folders (some of the network) keeps them by other means.
_NOT_FOR_FOLDERS = (errno.EINVAL, errno.ENOTSUP, errno.EBADF)


def sync_file(path: str) -> None:
    """Bring the content of a file to the disk, whoever has written it."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: str) -> None:
    """Bring the names in a folder to the disk: what was made, renamed and deleted there."""
    try:
        sync_file(path)
    except OSError as error:
        if error.errno not in _NOT_FOR_FOLDERS:
            raise


def sync_tree(path: str) -> None:
    """Bring a folder to the disk with all that is in it; or a file."""
    if not os.path.isdir(path):
        sync_file(path)
        return
    for folder, _, names in os.walk(path, topdown=False):
        for name in names:
            place = os.path.join(folder, name)
            if os.path.isfile(place):  # not a pipe or a link to nowhere
                sync_file(place)
        sync_folder(folder)


def make_synced_folders(path: str) -> None:
    """Make a folder and those above it as needed, and bring their names to the disk."""
    missing = []
    while path and not os.path.isdir(path):
        missing.append(path)
        path = os.path.dirname(path)
    for folder in reversed(missing):
        os.makedirs(folder, exist_ok=True)
        sync_folder(os.path.dirname(folder))
