"""Where environments with packages of their own live: folders in the user's cache.

    $XDG_CACHE_HOME/skate/environments/<fingerprint>/        a virtual environment
                                       <fingerprint>.lock    held by who builds it (exclusively)
                                                             and by those who use it (together)

An environment is complete once it has its mark, which is written last. What is found without it,
under a lock that nobody holds, was left by a builder that was killed: it is never used, and
removed by the next build. So are environments that nobody has used for long.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from skate._core.private_files import is_private, keeps_what_is_own
from skate._core.requirements import Requirements

WORKING_DIR = "RAY_RUNTIME_ENV_CREATE_WORKING_DIR"  # in lines of requirements, as in Ray

_MARK = "skate-complete.json"  # holds the path of the interpreter
_UNUSED_SECONDS = 30 * 24 * 3600.0


class EnvironmentFolder:
    """One environment on disk."""

    def __init__(self, name: str, root: str | None = None) -> None:
        self._root = root or environments_root()
        self.path: str = os.path.join(self._root, name)
        self._lock_path = f"{self.path}.lock"

    @property
    def interpreter(self) -> str | None:
        """Return the path of its Python if it is complete."""
        try:
            with open(os.path.join(self.path, _MARK)) as file:
                return str(json.load(file)["python"])
        except (OSError, ValueError, KeyError):
            return None

    def use(self) -> int | None:
        """Return a descriptor that keeps the environment from being removed for as long as it is
        open, or None if it is not complete, or is being built or removed just now."""
        _make_private(self._root)
        lock = os.open(self._lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(lock)
            return None
        if self.interpreter is None:
            os.close(lock)
            return None
        os.utime(os.path.join(self.path, _MARK))
        return lock

    @contextmanager
    def building(self) -> Iterator[bool]:
        """Hold the environment alone. True if it is to be built: nothing is there then; what is
        left without its mark at the end is removed."""
        _make_private(self._root)
        with open(self._lock_path, "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if self.interpreter is not None:
                yield False
                return
            self.remove()
            try:
                yield True
            finally:
                if self.interpreter is None:
                    self.remove()

    def complete(self, interpreter: str) -> None:
        """Say that the environment can be used from now on."""
        draft = os.path.join(self.path, f"{_MARK}.draft")
        with open(draft, "w") as file:
            json.dump({"python": interpreter}, file)
        os.replace(draft, os.path.join(self.path, _MARK))

    def remove(self) -> None:
        with suppress(OSError):  # first, so that nothing half removed counts as complete
            os.unlink(os.path.join(self.path, _MARK))
        shutil.rmtree(self.path, ignore_errors=True)

    def remove_if_unused(self) -> None:
        """Remove it if it is half built, or was not used for long, and nobody holds it."""
        with open(self._lock_path, "a") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return
            if self.interpreter is None or self._age() > _UNUSED_SECONDS:
                self.remove()

    def _age(self) -> float:
        with suppress(OSError):
            return time.time() - os.stat(os.path.join(self.path, _MARK)).st_mtime
        return 0.0


def environments_root() -> str:
    """Return the folder of all environments of this user."""
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return os.path.join(cache, "skate", "environments")


def sweep_environments(root: str | None = None) -> None:
    """Remove what killed builders have left, and what was not used for long."""
    root = root or environments_root()
    for name in os.listdir(root):
        if os.path.isdir(os.path.join(root, name)):
            EnvironmentFolder(name, root).remove_if_unused()


def _make_private(root: str) -> None:
    """Make the folder, for this user alone. PermissionError if it is somebody else's, or if
    somebody else may put another one in its place: whoever can write there could have our workers
    run what they like."""
    os.makedirs(root, mode=0o700, exist_ok=True)
    above = [str(folder) for folder in Path(root).parents[:2]]
    wrong = [folder for folder in above if not keeps_what_is_own(folder)]
    if not is_private(os.lstat(root), others_may_read=True):
        wrong = [root]
    if wrong:
        found = os.lstat(wrong[0])
        raise PermissionError(
            f"{wrong[0]} is not this user's alone (owner {found.st_uid}, mode "
            f"{found.st_mode & 0o7777:o}): set XDG_CACHE_HOME to a folder that is"
        )


# -- names ----------------------------------------------------------------------------------------


def site_folders() -> list[str]:
    """Return the folders of packages that this process sees, in order."""
    import site

    folders = [*site.getsitepackages(), *([site.getusersitepackages()] if _user_site() else [])]
    return [folder for folder in folders if os.path.isdir(folder)]


def _user_site() -> bool:
    import site

    return bool(site.ENABLE_USER_SITE)


def fingerprint(wanted: Requirements, variables: Sequence[tuple[str, str]], directory: str) -> str:
    """Return the name of the environment that has what is `wanted`, on top of this process's.

    `variables` are those that the tool obeys; paths in `wanted` are relative to `directory`.
    """
    parts = [sys.version, sys.executable, site_folders(), wanted, sorted(variables)]
    digest = hashlib.sha256(json.dumps(parts).encode())
    for path in _files_among(wanted.packages, directory, directory, set()):
        for part in _content(path):
            digest.update(part)
    return digest.hexdigest()[:32]


def _files_among(
    packages: Iterable[str], directory: str, working_dir: str, seen: set[str]
) -> Iterator[str]:
    """Yield files and folders that the lines name: what is in them is part of what is wanted.
    `seen` are those found so far: files of requirements may include each other."""
    for line in packages:
        for word in line.replace(f"${{{WORKING_DIR}}}", working_dir).split():
            path = os.path.join(directory, word.partition("file://")[2] or word)
            if not (os.sep in word or word.endswith((".whl", ".txt"))):
                continue
            if os.path.realpath(path) in seen or not os.path.exists(path):
                continue
            seen.add(os.path.realpath(path))
            yield path
            if path.endswith(".txt") and os.path.isfile(path):
                lines = Path(path).read_text(errors="surrogateescape").splitlines()
                yield from _files_among(lines, os.path.dirname(path), working_dir, seen)


def _content(path: str) -> Iterator[bytes]:
    """Return what tells this state of a file or folder from any other. Of a folder, the names,
    sizes and times of what is in it: reading all could take long."""
    if os.path.isfile(path):
        yield hashlib.sha256(Path(path).read_bytes()).digest()
        return
    yield os.fsencode(path)
    for folder, folders, names in os.walk(path):
        folders.sort()
        for name in sorted(names):
            file = os.path.join(folder, name)
            with suppress(FileNotFoundError):  # it was removed meanwhile
                found = os.lstat(file)  # of links too: they may lead nowhere
                yield f"{file!r} {found.st_size} {found.st_mtime_ns}".encode(errors="replace")
