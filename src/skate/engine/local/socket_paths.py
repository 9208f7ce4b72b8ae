"""Unix sockets in the folders of a session, however long the paths of these are."""

from __future__ import annotations

import os
from collections.abc import Callable


def use_socket(folder: str, name: str, use: Callable[[str], object]) -> None:
    """Bind or connect to a socket in a folder: an address has 108 bytes at most.

    Args:
        folder: Where the socket is; no link to a folder.
        name: The name of the socket.
        use: `bind` or `connect` of a socket.
    """
    flags = os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    directory = os.open(folder, flags)
    try:
        use(f"/proc/self/fd/{directory}/{name}")
    finally:
        os.close(directory)
