"""Where a session keeps its files, and how leftovers of dead ones are found.

    /dev/shm/skate-<user>-<pid>-<random>/          its home: `lock`, and `objects`
    $TMPDIR/skate-<user>-<pid>-<random>-<random>/  sockets, spilled values, temporary folders;
                                                   $RAY_TMPDIR, if there is one, in its place
    <spill_dir>/skate-…-<random>-<random>/         spilled values, where `spill_dir` was given

The driver holds the lock for as long as it lives; the file says in which other places the
session has a folder, whose name begins with the home's. A home whose lock can be taken belongs to
nobody (a power cut, both the driver and its fork server killed) and is removed by the next start,
after the others. It is in shared memory because everybody looks there: the others may be in some
$TMPDIR.

Other users see these names and may put anything of theirs beside them. So every folder is made
by a `mkdir` that fails where something is already, under a name that nobody can know before; and
only what belongs to this user is removed, without following links.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence

from skate._core.private_files import is_own, is_private_folder

_PREFIX = "skate"
_SHM = "/dev/shm"
_LOCK = "lock"
_OBJECTS = "objects"
_SPILLED = "spilled"
_PLACES_BYTES = 16384  # what is read of a lock file
_UNFINISHED_SECONDS = 60.0  # making a home takes a millisecond
_MAX_NAMES = 100  # tried for a folder; each has 32 random bits
_FOLDER_ITSELF = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class SessionFiles:
    """Makes and removes the folders of one session.

    `spill_dir` is where values go that do not fit into shared memory; without it they are beside
    the sockets.
    """

    def __init__(self, spill_dir: str | None = None) -> None:
        base = _base_dir()
        in_shm = _shm_base(base)
        sweep(in_shm)
        self.home: str = make_private(in_shm, f"{_own_prefix()}{os.getpid()}-")
        self.name: str = os.path.basename(self.home)
        # All that must be removed at the end; the one with the lock last.
        self.dirs: list[str] = [self.home]
        self._lock = -1
        try:
            self._make_folders(base, spill_dir and os.path.abspath(spill_dir))
        except BaseException:
            self.remove()
            raise

    def _make_folders(self, base: str, spill_dir: str | None) -> None:
        in_home = os.path.dirname(self.home) == base
        places = [place for place in (spill_dir, None if in_home else base) if place]
        self._lock = _make_lock(self.home, places)
        self.shm_dir: str = _make_inside(self.home, _OBJECTS)
        self.dir: str = self.home if in_home else self._make_elsewhere(base)
        if spill_dir:
            _make_chosen("spill_dir", spill_dir)
            self.disk_dir: str = self._make_elsewhere(spill_dir)
        else:
            self.disk_dir = _make_inside(self.dir, _SPILLED)

    def _make_elsewhere(self, place: str) -> str:
        """Make the session's folder in another place than its home."""
        made = make_private(place, f"{self.name}-")
        self.dirs.insert(0, made)
        return made

    def detach_in_child(self) -> None:
        """Detach in a forked child: the lock is the parent's."""
        os.close(self._lock)

    def remove(self) -> None:
        """Remove the folders, and let go of the lock."""
        remove(self.dirs)
        if self._lock >= 0:
            os.close(self._lock)


def make_private(place: str, prefix: str) -> str:
    """Make a folder in `place` that nobody else can read or change; return its path.

    The name is `prefix` and something random. What somebody else has put there under that name
    is never taken for the folder.
    """
    for _ in range(_MAX_NAMES):
        path = os.path.join(place, prefix + os.urandom(4).hex())
        try:
            os.mkdir(path, 0o700)
        except FileExistsError:
            continue
        _check_private(path)
        return path
    raise FileExistsError(
        f"{_MAX_NAMES} random names that begin with {prefix!r} are all taken in {place}: somebody "
        "fills that folder on purpose. Choose another with the environment variable TMPDIR, or "
        "skate.init(spill_dir=...) if that is the one"
    )


def _make_inside(private: str, name: str) -> str:
    """Make a folder in one that is private already; return its path."""
    path = os.path.join(private, name)
    os.mkdir(path, 0o700)
    return path


def _check_private(path: str) -> None:
    """Raise if a folder that was just made is not this user's alone: some file systems have no
    owners and modes, and where others may rename what is ours it may be theirs by now."""
    if is_private_folder(path):
        return
    found = os.lstat(path)
    if is_own(found):
        _quietly(os.rmdir, path)
    raise PermissionError(
        f"{path} cannot be kept from other users: it was made for user {os.geteuid()} with mode "
        f"0700, and belongs to user {found.st_uid} with mode {stat.S_IMODE(found.st_mode):04o}. "
        "Choose a folder on a file system with owners and modes, by the environment variable "
        "TMPDIR or skate.init(spill_dir=...)"
    )


def _make_lock(home: str, places: Sequence[str]) -> int:
    """Make and take the lock; it says in which other places the session has folders.

    It has another name until it is taken: a free one would be swept as a dead session's.
    """
    path = os.path.join(home, _LOCK)
    fd = os.open(path + ".new", os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        # Where shared memory is full, the places are the usual ones.
        with contextlib.suppress(OSError):
            os.write(fd, b"\0".join(map(os.fsencode, places)))
        os.rename(path + ".new", path)
    except BaseException:
        os.close(fd)
        raise
    return fd


def live_homes() -> dict[int, str]:
    """Return the homes of this user's sessions, by the process of the driver. What dead ones have
    left is removed."""
    in_shm = _shm_base(_base_dir())
    sweep(in_shm)
    homes = {}
    for home in sorted(_own_in(in_shm, _own_prefix())):
        pid = os.path.basename(home).removeprefix(_own_prefix()).partition("-")[0]
        if pid.isdigit() and os.path.exists(os.path.join(home, _LOCK)):
            homes[int(pid)] = home
    return homes


def sweep(in_shm: str) -> None:
    """Remove what dead sessions of this user have left, by their homes in `in_shm`."""
    for home in _own_in(in_shm, _own_prefix()):
        places = _places_of_the_dead(home)
        if places is not None:
            begins = f"{os.path.basename(home)}-"
            others = [path for place in places or [_base_dir()] for path in _own_in(place, begins)]
            remove([*others, home])


def _places_of_the_dead(home: str) -> list[str] | None:
    """Return where else a dead session has folders, as far as that is known; None for a live
    one."""
    try:
        fd = os.open(os.path.join(home, _LOCK), os.O_RDWR | os.O_NOFOLLOW)
    except FileNotFoundError:
        return [] if _was_never_finished(home) else None
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return [os.fsdecode(path) for path in os.read(fd, _PLACES_BYTES).split(b"\0") if path]
    except OSError:
        return None  # in use
    finally:
        os.close(fd)


def _was_never_finished(home: str) -> bool:
    """Return whether its driver was killed before it had the lock (and is not just about to
    take it, or to remove the home)."""
    pid = os.path.basename(home).removeprefix(_own_prefix()).partition("-")[0]
    try:
        age = time.time() - os.lstat(home).st_mtime
        return age > _UNFINISHED_SECONDS and not _is_alive(int(pid))
    except (OSError, ValueError):
        return False


def _is_alive(pid: int) -> bool:
    return os.path.exists(f"/proc/{pid}")


def remove(dirs: Sequence[str]) -> bool:
    """Remove the folders of a session, of which the home is the last; False if something is left.

    The home and its lock go when all else is gone: a worker that is about to end may still
    write, and the next start finds by the lock what that leaves behind.
    """
    *others, home = dirs
    for path in others:
        remove_tree(path)
    remove_tree(home, spare=_LOCK)
    if any(map(_is_there, others)) or _names_in(home) - {_LOCK}:
        return False
    remove_tree(home)
    return not _is_there(home)


def remove_tree(path: str, spare: str | None = None) -> None:
    """Remove a folder of this user with what is in it; whatever cannot be removed is left.

    With `spare`, the name of a file in it, that file and the folder itself stay. Links are
    removed, not followed; nor is anything touched if `path` itself is a link, or the folder of
    another user.
    """
    with _opened(path) as top:
        if top is None:
            return
        for folder, folders, files, inside in os.fwalk(".", topdown=False, dir_fd=top):
            for name in (*files, *folders):
                if folder != "." or name != spare:
                    _remove_entry(name, inside)
    if spare is None:
        _quietly(os.rmdir, path)


@contextlib.contextmanager
def _opened(path: str) -> Iterator[int | None]:
    """Open a folder of this user; None for anything else."""
    try:
        fd = os.open(path, _FOLDER_ITSELF)
    except OSError:
        yield None
        return
    try:
        yield fd if is_own(os.fstat(fd)) else None
    finally:
        os.close(fd)


def _remove_entry(name: str, inside: int) -> None:
    try:
        os.unlink(name, dir_fd=inside)
    except (IsADirectoryError, PermissionError):  # which of them is up to the system
        _quietly(lambda name: os.rmdir(name, dir_fd=inside), name)
    except OSError:
        pass


def _quietly(remove: Callable[[str], None], path: str) -> None:
    try:
        remove(path)
    except OSError:
        pass


def _is_there(path: str) -> bool:
    """Return whether there is something of this user: what others put there instead is theirs."""
    try:
        return is_own(os.lstat(path))
    except OSError:
        return False


def _names_in(path: str) -> set[str]:
    with _opened(path) as folder:
        return set() if folder is None else set(os.listdir(folder))


def _own_in(place: str, prefix: str) -> list[str]:
    """Find the folders of this user whose names begin so."""
    try:
        with os.scandir(place) as entries:
            return [entry.path for entry in entries if _is_own_folder(entry, prefix)]
    except OSError:
        return []


def _is_own_folder(entry: os.DirEntry[str], prefix: str) -> bool:
    """Return whether it is a folder of ours: others may make anything in a temporary directory,
    under any name."""
    return (
        entry.name.startswith(prefix)
        and entry.is_dir(follow_symlinks=False)
        and is_own(entry.stat(follow_symlinks=False))
    )


def _own_prefix() -> str:
    return f"{_PREFIX}-{os.geteuid()}-"


def _base_dir() -> str:
    """Return the temporary directory; by hand, because importing `tempfile` takes 10 ms."""
    chosen = os.environ.get("RAY_TMPDIR")  # Ray's, which makes it as well
    if chosen:
        _make_chosen("RAY_TMPDIR", chosen)
        return os.path.abspath(chosen)
    for path in (os.environ.get("TMPDIR"), "/tmp", "/var/tmp"):
        if path and os.access(path, os.W_OK | os.X_OK):
            return os.path.abspath(path)
    return os.getcwd()


def _make_chosen(name: str, path: str) -> None:
    """Make the folder that the user has chosen by a variable or parameter of this name."""
    try:
        os.makedirs(path, mode=0o700, exist_ok=True)
    except OSError as error:
        raise OSError(
            error.errno,
            f"{name} takes a folder, or a path where one can be made: set it to another, or leave "
            f"it out ({error.strerror})",
            path,
        ) from None


def _shm_base(base: str) -> str:
    """Return shared memory if there is any, otherwise the folder for ordinary files."""
    return _SHM if os.access(_SHM, os.W_OK | os.X_OK) else base
