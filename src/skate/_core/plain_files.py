"""Files of others: a name in their folder may be a pipe, which never ends, or a device."""

from __future__ import annotations

import errno
import os
import stat


def open_plain(
    path: str | os.PathLike[str], flags: int = os.O_RDONLY, *, follow_links: bool = True
) -> int:
    """Open a file and return its descriptor; nothing that is no file is waited for.

    Args:
        path: The file.
        flags: What it is opened for, as for `os.open`; by default to read it.
        follow_links: Whether it may be a link to one. Whoever writes says no: the link may lead
            to a file of the user's that others cannot write to.

    Raises:
        OSError: If it cannot be opened, or is a pipe, a socket, a device or a folder.
    """
    flags |= os.O_NONBLOCK | os.O_CLOEXEC
    file = os.open(path, flags if follow_links else flags | os.O_NOFOLLOW, 0o666)
    mode = os.fstat(file).st_mode
    if stat.S_ISREG(mode):
        return file
    os.close(file)
    number = errno.EISDIR if stat.S_ISDIR(mode) else errno.EINVAL
    raise OSError(number, "it is no file, but a folder, a pipe or a device", os.fspath(path))


def read_plain(path: str | os.PathLike[str]) -> bytes:
    """Read a file as a whole, if it is one.

    Args:
        path: The file, or a link to it.

    Raises:
        OSError: If it cannot be read, or is a pipe, a socket, a device or a folder.
    """
    descriptor = open_plain(path)
    try:
        with open(descriptor, "rb", closefd=False) as file:
            return file.read()
    finally:
        os.close(descriptor)  # also if `open` fails, which would leave it
