"""Where the sockets of an instance are: a folder that only its user may enter.

It is inside the session's own folder, which goes with the session however that ends. Where that
path is too long for a socket (a long TMPDIR), it is a folder of its own, in TMPDIR or /tmp, which
stays if all processes of the instance are killed at once. Other processes of the user find the
socket for questions (`control_socket`) by the kernel's list of sockets.
"""

from __future__ import annotations

import contextlib
import fnmatch
import os
import tempfile
from collections.abc import Iterator

import skate
from skate._core.private_files import is_private_folder

_LONGEST_ADDRESS_BYTES = 107  # of a Unix socket
_MAX_BASE_CHARACTERS = 60  # of a folder, which leave room for the names in it
_SOCKETS = "/proc/net/unix"


def make_folder() -> str:
    """Make a folder of mode 0700 under a name that nobody can know before."""
    scratch = skate.get_runtime_context()._scratch_dir if skate.is_initialized() else None
    bases = [
        base
        for base in (scratch, tempfile.gettempdir())
        if base and len(base) < _MAX_BASE_CHARACTERS
    ]
    return tempfile.mkdtemp(prefix="skate-serve-", dir=bases[0] if bases else "/tmp")


def remove_socket(path: str) -> None:
    """Remove a socket, and its folder if it was the last one there."""
    with contextlib.suppress(OSError):
        os.unlink(path)
        os.rmdir(os.path.dirname(path))


def check_address(path: str) -> str:
    """Return the path of a socket if it is short enough; the kernel's error would not name it."""
    if len(os.fsencode(path)) > _LONGEST_ADDRESS_BYTES:
        raise OSError(
            f"a Unix socket's path has {_LONGEST_ADDRESS_BYTES} bytes at most, and {path} has "
            f"{len(os.fsencode(path))}: choose a shorter TMPDIR"
        )
    return path


def find_sockets(pattern: str) -> Iterator[str]:
    """Find sockets of such names in private folders of this user that someone listens on."""
    with contextlib.suppress(OSError), open(_SOCKETS) as listed:
        for line in listed:
            _, root, below = line.rstrip("\n").partition("/")
            folder, name = os.path.split(root + below)
            if fnmatch.fnmatchcase(name, pattern) and is_private_folder(folder):
                yield root + below
