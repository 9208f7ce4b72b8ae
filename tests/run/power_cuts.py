"""A folder as a power cut would leave it: what has not been synced may be there or not.

`Disk` watches `os.fsync` in this process and keeps, per file, the content of its last sync, and
per folder the names at its last sync. From these it makes *images*, the extremes of what a file
system may have on its disk at a moment:

    nothing more   only what was synced
    names first    all names as they are now, files as they were synced (empty, if never)
    content first  names as they were synced, files as they are now
    everything     as after the death of every process
"""

from __future__ import annotations

import os
import shutil
import stat
import threading
from collections.abc import Callable
from pathlib import Path

IMAGES = ("nothing more", "names first", "content first", "everything")


class Disk:
    """Watches what is below `root`, which is on the disk as it is when the watch begins."""

    def __init__(self, root: Path, at_each_sync: Callable[[Disk], None]) -> None:
        self.root = root
        self.syncs = 0
        self._lock = threading.RLock()  # lines are synced by a thread as well, on a slow machine
        self._at_each_sync = at_each_sync
        self._content: dict[int, bytes] = {}  # by inode
        self._names: dict[int, dict[str, int]] = {}
        self._pins: dict[int, int] = {}  # inodes whose numbers must not be used again
        self._note(str(root))

    def fsync(self, fd: int) -> None:
        """Stand in for `os.fsync`."""
        path = os.readlink(f"/proc/self/fd/{fd}")
        if Path(path).is_relative_to(self.root):
            with self._lock:
                self.syncs += 1
                self._at_each_sync(self)
                self._note(path)

    def close(self) -> None:
        for fd in self._pins.values():
            os.close(fd)

    def _note(self, path: str) -> None:
        if os.path.isdir(path):
            names = {name: self._pin(os.path.join(path, name)) for name in os.listdir(path)}
            self._names[self._pin(path)] = names
        else:
            self._content[self._pin(path)] = Path(path).read_bytes()

    def _pin(self, path: str) -> int:
        inode = os.lstat(path).st_ino
        if inode not in self._pins:
            self._pins[inode] = os.open(path, os.O_PATH | os.O_NOFOLLOW)
        return inode

    def image(self, kind: str, target: Path) -> Path:
        """Write down what a power cut at this moment may leave."""
        shutil.rmtree(target, ignore_errors=True)
        self._write(os.lstat(self.root).st_ino, target, kind)
        return target

    def _write(self, inode: int, target: Path, kind: str) -> None:
        place = f"/proc/self/fd/{self._pins[inode]}"
        if not stat.S_ISDIR(os.stat(place).st_mode):
            now = kind in ("content first", "everything")
            target.write_bytes(Path(place).read_bytes() if now else self._content.get(inode, b""))
            return
        target.mkdir()
        if kind in ("names first", "everything"):
            names = {name: self._pin(os.path.join(place, name)) for name in os.listdir(place)}
        else:
            names = self._names.get(inode, {})
        for name, inner in names.items():
            self._write(inner, target / name, kind)
