"""Where a session keeps its files, and how leftovers of dead ones are found.

Each session has a directory in shared memory and one on disk, mode 0700, whose names carry the
user and the process. The driver holds a lock on a file in the first, its *home*, for as long as it
lives; the file says where the others are. A home whose lock can be taken belongs to nobody (a
power cut, both the driver and its fork server killed) and is removed by the next start, after the
others. It is in shared memory because everybody looks there: the other may be in some $TMPDIR.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import time
from collections.abc import Callable, Sequence

_PREFIX = "skate"
_SHM = "/dev/shm"
_LOCK = "lock"
_OBJECTS = "objects"
_LONGEST_PATHS = 16384
_UNFINISHED = 60.0  # seconds; making a home takes a millisecond


class Session:
    def __init__(self, spill_dir: str | None = None) -> None:
        base = _base_dir()
        in_shm = _shm_base(base)
        sweep(in_shm)
        self.name = f"{_own_prefix()}{os.getpid()}-{os.urandom(4).hex()}"
        self.home = os.path.join(in_shm, self.name)
        self.dir = os.path.join(base, self.name)
        self.shm_dir = os.path.join(self.home, _OBJECTS)
        if spill_dir is None:
            self.disk_dir = os.path.join(self.dir, "spilled")
        else:
            self.disk_dir = os.path.join(os.path.abspath(spill_dir), self.name)
        os.mkdir(self.home, 0o700)
        self._lock = _make_lock(self.home, self.dirs[:-1])
        for path in (self.shm_dir, self.dir, self.disk_dir):
            os.makedirs(path, mode=0o700, exist_ok=True)

    @property
    def dirs(self) -> list[str]:
        """All that must be removed at the end; the one with the lock last."""
        return [self.disk_dir, *([self.dir] if self.dir != self.home else []), self.home]

    def forsake(self) -> None:
        """In a forked child: the lock is the parent's."""
        os.close(self._lock)

    def remove(self) -> None:
        remove(self.dirs)
        os.close(self._lock)


def _make_lock(home: str, others: Sequence[str]) -> int:
    """Make and take the lock; it says which other directories belong to the session.

    It has another name until it is taken: a free one would be swept as a dead session's.
    """
    path = os.path.join(home, _LOCK)
    fd = os.open(path + ".new", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    with contextlib.suppress(OSError):  # shared memory is full: they are where they usually are
        os.write(fd, b"\0".join(map(os.fsencode, others)))
    os.rename(path + ".new", path)
    return fd


def sweep(in_shm: str) -> None:
    """Remove what dead sessions of this user have left."""
    for name in _sessions_in(in_shm):
        home = os.path.join(in_shm, name)
        others = _others_of_the_dead(home)
        if others is not None:
            others = others or [os.path.join(_base_dir(), name)]
            remove([*(path for path in others if name in path.split(os.sep)), home])


def _others_of_the_dead(home: str) -> list[str] | None:
    """Which other directories belonged to a dead session; None for a live one."""
    try:
        fd = os.open(os.path.join(home, _LOCK), os.O_RDWR)
    except FileNotFoundError:
        return [] if _was_never_finished(home) else None
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return [os.fsdecode(path) for path in os.read(fd, _LONGEST_PATHS).split(b"\0") if path]
    except OSError:
        return None  # in use
    finally:
        os.close(fd)


def _was_never_finished(home: str) -> bool:
    """Whether its driver was killed before it had the lock (and is not just about to take it, or
    to remove the home)."""
    pid = os.path.basename(home).removeprefix(_own_prefix()).partition("-")[0]
    try:
        return time.time() - os.stat(home).st_mtime > _UNFINISHED and not _is_alive(int(pid))
    except (OSError, ValueError):
        return False


def _is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def remove(dirs: Sequence[str]) -> bool:
    """Remove the directories of a session; False if something is left.

    The home, which is the last, goes when all else is gone: a worker that is about to end may
    still write, and the next start finds by the lock what that leaves behind.
    """
    *others, home = dirs
    others.append(os.path.join(home, _OBJECTS))
    for path in others:
        remove_tree(path)
    if any(map(os.path.lexists, others)):
        return False
    remove_tree(home)
    return not os.path.lexists(home)


def remove_tree(path: str) -> None:
    """Remove a directory with what is in it; whatever cannot be removed is left."""
    for folder, folders, files in os.walk(path, topdown=False):
        for name in files:
            _quietly(os.unlink, os.path.join(folder, name))
        for name in folders:
            inner = os.path.join(folder, name)
            _quietly(os.unlink if os.path.islink(inner) else os.rmdir, inner)
    _quietly(os.rmdir, path)


def _quietly(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:
        pass


def _sessions_in(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [entry.name for entry in entries if _is_own(entry)]
    except OSError:
        return []


def _is_own(entry: os.DirEntry[str]) -> bool:
    """Others may make anything in a temporary directory, under any name."""
    return (
        entry.name.startswith(_own_prefix())
        and entry.is_dir(follow_symlinks=False)
        and entry.stat(follow_symlinks=False).st_uid == os.getuid()
    )


def _own_prefix() -> str:
    return f"{_PREFIX}-{os.getuid()}-"


def _base_dir() -> str:
    """The temporary directory; by hand, because importing `tempfile` takes 10 ms."""
    for path in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp"):
        if path and os.access(path, os.W_OK | os.X_OK):
            return os.path.abspath(path)
    return os.getcwd()


def _shm_base(base: str) -> str:
    """Shared memory if there is any, otherwise ordinary files."""
    return _SHM if os.access(_SHM, os.W_OK | os.X_OK) else base
