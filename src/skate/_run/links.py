"""Links in folders that others have made. A link may lead to any file of this user; whoever copies
the folder and follows it would put that file among the others, and perhaps upload it.
"""

from __future__ import annotations

import os

from skate.exceptions import OutsideLinkError

_foreign: set[str] = set()  # the real paths of checkpoints that programs here were given


def note_foreign_folder(folder: str) -> None:
    """Remember that what is in a folder was not made by the loop that runs here.

    Args:
        folder: The folder of a checkpoint that a session was given.
    """
    _foreign.add(os.path.realpath(folder))


def check_foreign_links(folder: str) -> None:
    """Check the links of a folder that is about to be reported, if it is a foreign one, or in one.

    Args:
        folder: The folder.

    Raises:
        OutsideLinkError: If it is foreign, and has a link that leads out of it.
    """
    place = os.path.realpath(folder)
    if any(place == other or place.startswith(f"{other}{os.sep}") for other in _foreign):
        check_links(folder)


def check_links(folder: str) -> None:
    """Check that no link in a folder leads out of it, or to a folder that the link is in.

    Args:
        folder: The folder, which may be a link itself. A file has none.

    Raises:
        OutsideLinkError: If one does.
    """
    root = os.path.realpath(folder)
    waiting = [root] if os.path.isdir(root) else []
    while waiting:
        place = waiting.pop()
        with os.scandir(place) as entries:
            for entry in entries:
                if entry.is_symlink():
                    _check_link(entry.path, root, place)
                elif entry.is_dir(follow_symlinks=False):
                    waiting.append(entry.path)


def _check_link(link: str, root: str, place: str) -> None:
    target = os.path.realpath(link)
    if not _is_in(target, root):
        raise OutsideLinkError(link, os.readlink(link), "out of the folder")
    if _is_in(place, target):  # a copy that follows it would not end
        raise OutsideLinkError(link, os.readlink(link), "to a folder that it is in itself")


def _is_in(path: str, folder: str) -> bool:
    return os.path.commonpath([path, folder]) == folder
