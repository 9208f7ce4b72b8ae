"""Where a session keeps its files, and how leftovers of dead ones are found.

Each session has a directory in shared memory and one on disk, mode 0700, whose names carry the
user and the process. The driver holds a lock on a file in the disk directory for as long as it
lives; a directory whose lock can be taken belongs to nobody (a power cut, both the driver and its
fork server killed) and is removed by the next start.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable

_PREFIX = "skate"
_SHM = "/dev/shm"
_LOCK = "lock"
_LONGEST_PATH = 4096


class Session:
    def __init__(self, spill_dir: str | None = None) -> None:
        base = _base_dir()
        sweep(base)
        self.name = f"{_own_prefix()}{os.getpid()}-{os.urandom(4).hex()}"
        self.dir = os.path.join(base, self.name)
        os.mkdir(self.dir, 0o700)
        if spill_dir is None:
            self.disk_dir = os.path.join(self.dir, "spilled")
        else:
            self.disk_dir = os.path.join(os.path.abspath(spill_dir), self.name)
        self._lock = _make_lock(self.dir, self.disk_dir)
        in_shm = _make(os.path.join(_shm_base(base), self.name))
        self.shm_dir = _make(os.path.join(in_shm, "objects"))
        _make(self.disk_dir)

    @property
    def dirs(self) -> list[str]:
        """All that must be removed at the end; the one with the lock last."""
        return [os.path.dirname(self.shm_dir), self.disk_dir, self.dir]

    def forsake(self) -> None:
        """In a forked child: the lock is the parent's."""
        os.close(self._lock)

    def remove(self) -> None:
        for path in self.dirs:
            remove_tree(path)
        os.close(self._lock)


def _make_lock(directory: str, disk_dir: str) -> int:
    """Make and take the lock; it says where values are spilled.

    It has another name until it is taken: a free one would be swept as a dead session's.
    """
    path = os.path.join(directory, _LOCK)
    fd = os.open(path + ".new", os.O_CREAT | os.O_RDWR, 0o600)
    fcntl.flock(fd, fcntl.LOCK_EX)
    os.write(fd, os.fsencode(disk_dir))
    os.rename(path + ".new", path)
    return fd


def sweep(base: str) -> None:
    """Remove what dead sessions of this user have left."""
    for name in _sessions_in(base):
        disk_dir = _disk_dir_of_the_dead(os.path.join(base, name))
        if disk_dir is not None:
            remove_tree(os.path.join(_shm_base(base), name))
            if os.path.basename(disk_dir) == name:  # elsewhere, by init(spill_dir=...)
                remove_tree(disk_dir)
            remove_tree(os.path.join(base, name))


def _disk_dir_of_the_dead(directory: str) -> str | None:
    """Where a dead session has spilled; None for a live one."""
    try:
        fd = os.open(os.path.join(directory, _LOCK), os.O_RDWR)
    except OSError:
        return None  # just being made, or just being removed
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.fsdecode(os.read(fd, _LONGEST_PATH))
    except OSError:
        return None  # in use
    finally:
        os.close(fd)


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
            return path
    return os.getcwd()


def _shm_base(base: str) -> str:
    """Shared memory if there is any, otherwise ordinary files."""
    return _SHM if os.access(_SHM, os.W_OK | os.X_OK) else base


def _make(path: str) -> str:
    os.makedirs(path, mode=0o700, exist_ok=True)
    return path
