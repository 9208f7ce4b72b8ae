"""One copy of a checkpoint on this machine, for all processes that want it.

    <temporary>/checkpoint_<identity>                 of `to_directory`: stays until it is deleted
    <temporary>/checkpoint_<identity>_read            of `as_directory`: ends with its last reader
    <temporary>/checkpoint_<identity>_read.reader_<process>     a file per process that reads it

The first one writes it elsewhere and moves it into place, so that a copy is there as a whole or
not at all. The folder itself is what is locked meanwhile: nothing else has to be cleaned up.
"""

from __future__ import annotations

import contextlib
import fcntl
import glob
import os
import shutil
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator

TEMPORARY_PREFIX = "checkpoint_"  # how the names of temporary folders begin

Fill = Callable[[str], None]

_readers_here: Counter[str] = Counter()  # in this process, by the file that stands for them
_counting = threading.Lock()


def kept_copy(identity: str, fill: Fill) -> str:
    """Return the folder of a copy that stays.

    Args:
        identity: What the checkpoint is known by, in all processes.
        fill: Writes the content into a folder.
    """
    place = _place(identity)
    with _alone_in(place):
        _fill_if_empty(place, fill)
    return place


@contextlib.contextmanager
def copy_to_read(identity: str, fill: Fill) -> Iterator[str]:
    """Yield the folder of a copy that is deleted when nobody reads it any more.

    Args:
        identity: What the checkpoint is known by, in all processes.
        fill: Writes the content into a folder.
    """
    place = f"{_place(identity)}_read"
    reader = reader_file(place)
    with _alone_in(place):
        _count(reader, 1)
    try:
        with _alone_in(place):
            _fill_if_empty(place, fill)
        yield place
    finally:
        with _alone_in(place):
            _count(reader, -1)
            if not reader_files(place):
                shutil.rmtree(place, ignore_errors=True)


def reader_file(place: str, process: object = None) -> str:
    """Return the file that stands for the readers of a process; by default of this one."""
    return f"{place}.reader_{os.getpid() if process is None else process}"


def reader_files(place: str) -> list[str]:
    """Return the files that stand for all processes that read a copy."""
    return glob.glob(reader_file(glob.escape(place), "*"))


def _place(identity: str) -> str:
    return os.path.join(tempfile.gettempdir(), f"{TEMPORARY_PREFIX}{identity}")


def _count(reader: str, change: int) -> None:
    """Note that a reader comes or goes. Threads of a process share a file."""
    with _counting:
        if change > 0:  # others may make links in a temporary folder, which are not followed
            os.close(os.open(reader, os.O_CREAT | os.O_WRONLY | os.O_NOFOLLOW, 0o600))
        _readers_here[reader] += change
        if _readers_here[reader] == 0:
            del _readers_here[reader]
            with contextlib.suppress(FileNotFoundError):
                os.remove(reader)


def _fill_if_empty(place: str, fill: Fill) -> None:
    if os.listdir(place):
        return
    draft = tempfile.mkdtemp(prefix=TEMPORARY_PREFIX)
    try:
        fill(draft)
        os.rename(draft, place)  # whoever waits for the lock finds another folder, and looks anew
    except BaseException:
        shutil.rmtree(draft, ignore_errors=True)
        raise


@contextlib.contextmanager
def _alone_in(place: str) -> Iterator[None]:
    """Make a folder if it is not there, and let nobody else in."""
    while True:
        with contextlib.suppress(FileExistsError):
            os.mkdir(place, mode=0o700)
        try:
            folder = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except FileNotFoundError:  # deleted in between
            continue
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if _is_still(place, folder):
                yield
                return
        finally:
            os.close(folder)


def _is_still(place: str, folder: int) -> bool:
    """Return whether the folder was neither deleted nor replaced while its lock was waited for."""
    status = os.fstat(folder)
    if status.st_uid != os.getuid():
        raise PermissionError(
            f"{place!r} belongs to another user: set TMPDIR to a folder that is yours alone"
        )
    try:
        return os.path.samestat(status, os.stat(place))
    except FileNotFoundError:
        return False
