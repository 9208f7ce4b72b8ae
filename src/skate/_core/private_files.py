"""Whether files and folders are this user's alone: what others may change is not trusted."""

from __future__ import annotations

import contextlib
import os
import stat


def is_own(found: os.stat_result) -> bool:
    """Return whether a file or folder belongs to the user of this process."""
    return found.st_uid == os.geteuid()


def is_private(found: os.stat_result, *, others_may_read: bool = False) -> bool:
    """Return whether a file or folder is this user's, and closed to everybody else.

    Args:
        found: What `os.stat`, `os.lstat` or `os.fstat` says of it.
        others_may_read: Whether it is enough that nobody else can write.
    """
    open_to_others = stat.S_IWGRP | stat.S_IWOTH if others_may_read else 0o077
    return is_own(found) and not found.st_mode & open_to_others


def keeps_what_is_own(path: str) -> bool:
    """Return whether nobody but this user and root can put something else in the place of what
    this user has in a folder; in `/tmp`, with its sticky bit, nobody can.

    Args:
        path: The folder, or a link to it, which must not be somebody else's either.
    """
    found = os.stat(path)
    if not {found.st_uid, os.lstat(path).st_uid} <= {0, os.geteuid()}:
        return False
    return bool(found.st_mode & stat.S_ISVTX) or not found.st_mode & stat.S_IWOTH


def is_private_folder(path: str) -> bool:
    """Return whether `path` is a folder, and no link to one, that only this user may enter."""
    try:
        found = os.lstat(path)
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and is_private(found)


def own_state_folder() -> str:
    """Return the folder of what skate keeps for this user, whether it is there or not."""
    home = os.environ.get("XDG_STATE_HOME", "")
    if not os.path.isabs(home):  # also unset, as the specification has it
        home = os.path.expanduser("~/.local/state")
    return os.path.join(home, "skate")


def make_private_folder(path: str) -> None:
    """Make a folder that only this user may enter, unless there is something at its place.

    Args:
        path: The folder; those above it are made as the user's umask says.
    """
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with contextlib.suppress(FileExistsError):
        os.mkdir(path, 0o700)
