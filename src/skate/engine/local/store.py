"""Large values: one segment each, in shared memory or on disk.

    segment = header (64-byte multiple): number of buffers, length of the pickle and of each buffer
              pickle, then the buffers, each on a 64-byte boundary

A segment is written once by one process and mapped by any number of readers. Readers map it
copy-on-write: NumPy gets read-only views, and a torch tensor, which knows no read-only, can be
changed without anyone else seeing it. The driver decides when nobody needs a segment any more;
its name then goes back to the process that wrote it, which keeps the memory for its next value
(`recycle`): a first touch of fresh memory runs at 1-2 GB/s, a copy into used memory at 9 GB/s.

Names start with "s" (shared memory) or "d" (disk: for what does not fit, and what was spilled).
"""

from __future__ import annotations

import errno
import os
import struct
import threading
import time
from collections.abc import Callable
from typing import Any

from skate import exceptions
from skate._core.serialization import Packed, Serialized
from skate.engine.local.copying import copy
from skate.engine.local.mapping import Mapping, map_copy_on_write, map_shared

Location = tuple[str, int]  # name, bytes

_ALIGN_BYTES = 64
_LEAST_BYTES = 1 << 16
_NEW_FILE = os.O_WRONLY | os.O_CREAT | os.O_EXCL
_ABSENT = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP)  # nothing is there, or somebody's link
_UNUSED_SECONDS = 3.0  # for which a free segment is kept


class SegmentMovedError(Exception):
    """The segment is not under its name any more."""


class Store:
    """Writes and reads segments for one process."""

    def __init__(
        self,
        shm_dir: str,
        disk_dir: str,
        process: int,
        capacity: int,
        call_later: Callable[[float, Callable[[], None]], None],
    ) -> None:
        self.capacity = capacity
        self._call_later = call_later
        self._trimming = False
        self._dirs = {"s": shm_dir, "d": disk_dir}
        self._process = process
        self._user = os.geteuid()
        self._count = 0
        self._pool = _Pool(capacity // 4)

    def write(self, value: Serialized, make_room: Callable[[int], bool]) -> Location:
        """Store a value. `make_room(bytes)` is asked when shared memory is full.

        Raises OutOfDiskError when the disk is full too; leaves nothing behind then.
        """
        size = segment_size(value)
        used = self._pool.take(size)
        if used is not None:
            try:
                _copy_into(used.mapping(), value)
            except BaseException:  # no memory to map it, or Ctrl-C: nobody would ever free it
                self._pool.forget(used.name)
                self.delete(used.name)
                raise
            return used.name, size
        if size <= self.capacity:
            for _ in range(2):
                name = self._new_name("s")
                if self._write_file(name, value, size):
                    return name, size
                self._drop_pool()
                if not make_room(size):
                    break
        name = self._new_name("d")
        if self._write_file(name, value, size):
            return name, size
        raise exceptions.OutOfDiskError(
            f"no room for an object of {size:,} bytes: shared memory ({self._dirs['s']}) and the "
            f"spill directory ({self._dirs['d']}) are full. Free some references, or choose "
            "another place with skate.init(spill_dir=...)"
        )

    def open(self, location: Location, on_close: Callable[[], None] | None = None) -> Mapping:
        """Map a segment for reading. Raises SegmentMovedError if it was moved or freed."""
        fd = self._open_whole(*location)
        try:
            return map_copy_on_write(fd, location[1], on_close)
        finally:
            os.close(fd)

    def _open_whole(self, name: str, size: int) -> int:
        try:
            fd = os.open(self.path(name), os.O_RDONLY | os.O_NOFOLLOW)
        except OSError as error:
            if error.errno in _ABSENT:
                raise SegmentMovedError(name) from None
            raise
        found = os.fstat(fd)
        # Cut short from outside; or another user's, where others may rename the spill directory:
        # what is in a segment is unpickled.
        if found.st_size < size or found.st_uid != self._user:
            os.close(fd)
            raise SegmentMovedError(name)
        return fd

    def exists(self, location: Location) -> bool:
        """Return whether the segment is there, as it was written."""
        try:
            os.close(self._open_whole(*location))
        except SegmentMovedError:
            return False
        return True

    def recycle(self, name: str) -> None:
        """Keep a free segment of this process for the next value, or delete it."""
        if name[0] == "s":
            try:
                kept = self._pool.keep(_Segment(name, self.path(name)))
            except OSError:  # it was spilled: what is left of it is our mapping
                self._pool.forget(name)
                return
            if kept:
                self._trim_later()
                return
        self.delete(name)

    def _trim_later(self) -> None:
        if not self._trimming:
            self._trimming = True
            self._call_later(_UNUSED_SECONDS, self._trim)

    def _trim(self) -> None:
        """Give back the memory of segments that nothing has needed for a while."""
        self._trimming = False
        for segment in self._pool.unused_since(time.monotonic() - _UNUSED_SECONDS):
            self.delete(segment.name)
        if not self._pool.empty:
            self._trim_later()

    def delete(self, name: str) -> None:
        try:
            os.unlink(self.path(name))
        except FileNotFoundError:
            pass

    def delete_others(self, writer: int, in_use: set[str]) -> None:
        """Delete the segments in shared memory of a process, except those in use."""
        for name in os.listdir(self._dirs["s"]):
            if name.startswith(f"s{writer}-") and name not in in_use:
                self.delete(name)

    def path(self, name: str) -> str:
        return os.path.join(self._dirs[name[0]], name)

    def spill(self, location: Location) -> Location:
        """Copy a segment to disk under a new name; the caller deletes the old one.

        Raises SegmentMovedError if it is not there, and OutOfDiskError.
        """
        name, size = location
        target = self._new_name("d")
        source_fd = self._open_whole(name, size)
        try:
            _copy_file(source_fd, self.path(target), size)
        except OSError as error:
            self.delete(target)
            raise exceptions.OutOfDiskError(
                f"could not spill {size:,} bytes to {self._dirs['d']}: {error.strerror}"
            ) from error
        finally:
            os.close(source_fd)
        return target, size

    def close(self) -> None:
        self._drop_pool()

    def _drop_pool(self) -> None:
        for segment in self._pool.clear():
            self.delete(segment.name)

    def _new_name(self, kind: str) -> str:
        self._count += 1
        return f"{kind}{self._process}-{self._count}"

    def _write_file(self, name: str, value: Serialized, size: int) -> bool:
        """Write a new segment; False if there is no space. Written with `pwritev`: fails
        cleanly where a mapping would raise SIGBUS, and is twice as fast on fresh memory."""
        try:
            fd = os.open(self.path(name), _NEW_FILE, 0o600)
            try:
                _write_all(fd, _laid_out(value))
                os.ftruncate(fd, size)
            finally:
                os.close(fd)
        except OSError as error:
            self.delete(name)
            if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
                return False
            raise
        return True


class _Segment:
    """A segment of this process's own, free for the next value."""

    __slots__ = ("_map", "free_since", "name", "path", "size")

    def __init__(self, name: str, path: str) -> None:
        self.name = name
        self.path = path
        self.size = os.stat(path).st_size
        self.free_since = 0.0
        self._map: Mapping | None = None

    def mapping(self) -> Mapping:
        if self._map is None:
            fd = os.open(self.path, os.O_RDWR)
            try:
                self._map = map_shared(fd, self.size)
            finally:
                os.close(fd)
        return self._map


class _Pool:
    """Free segments, by size. Mappings of segments in use are kept: they make reuse fast."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._bytes = 0
        self._free: list[_Segment] = []
        self._lent: dict[str, _Segment] = {}
        self._lock = threading.Lock()

    def take(self, size: int) -> _Segment | None:
        """Return a free segment that `size` fits without wasting more than a quarter."""
        most = max(size + size // 4, _LEAST_BYTES)
        with self._lock:
            fitting = [segment for segment in self._free if size <= segment.size <= most]
            if not fitting:
                return None
            best = min(fitting, key=lambda segment: segment.size)
            self._free.remove(best)
            self._bytes -= best.size
            self._lent[best.name] = best
            return best

    def keep(self, segment: _Segment) -> bool:
        with self._lock:
            segment = self._lent.pop(segment.name, segment)
            if self._bytes + segment.size > self._limit:
                return False
            self._bytes += segment.size
            segment.free_since = time.monotonic()
            self._free.append(segment)
            return True

    def forget(self, name: str) -> None:
        """Let go of the mapping of a segment that is no more."""
        with self._lock:
            self._lent.pop(name, None)

    @property
    def empty(self) -> bool:
        return not self._free

    def unused_since(self, moment: float) -> list[_Segment]:
        """Take out those that have been free since before the moment."""
        with self._lock:
            old = [segment for segment in self._free if segment.free_since <= moment]
            for segment in old:
                self._free.remove(segment)
                self._bytes -= segment.size
            return old

    def clear(self) -> list[_Segment]:
        """Forget all of them; those that are free now."""
        with self._lock:
            free, self._free, self._bytes = self._free, [], 0
            self._lent.clear()
            return free


def parts_of(mapping: Mapping, writable: bool = False) -> Packed:
    """Return the packed value in a mapped segment: views that keep the mapping alive, read-only
    unless it has one reader."""
    whole = memoryview(mapping).cast("B")
    if not writable:
        whole = whole.toreadonly()
    count, length = struct.unpack_from("<QQ", whole)
    sizes = struct.unpack_from(f"<{count}Q", whole, 16)
    parts = []
    start = _aligned(16 + 8 * count)
    for size in (length, *sizes):
        parts.append(whole[start : start + size])
        start = _aligned(start + size)
    return tuple(parts)


def segment_size(value: Serialized) -> int:
    """Return the size of the segment that holds the value."""
    size = _aligned(16 + 8 * len(value.buffers))
    for length in (len(value.payload), *(buffer.nbytes for buffer in value.buffers)):
        size = _aligned(size + length)
    return size


def _aligned(size: int) -> int:
    return -(-size // _ALIGN_BYTES) * _ALIGN_BYTES


def _header(value: Serialized) -> bytes:
    sizes = [buffer.nbytes for buffer in value.buffers]
    header = struct.pack(f"<QQ{len(sizes)}Q", len(sizes), len(value.payload), *sizes)
    return header.ljust(_aligned(len(header)), b"\0")


def _laid_out(value: Serialized) -> list[Any]:
    parts: list[Any] = [_header(value)]
    for part in (value.payload, *value.buffers):
        parts.append(part)
        padding = -len(part) % _ALIGN_BYTES
        if padding:
            parts.append(bytes(padding))
    return parts


def _copy_into(mapping: Mapping, value: Serialized) -> None:
    position = 0
    with memoryview(mapping).cast("B") as target:
        for part in _laid_out(value):
            length = len(part)
            copy(target[position : position + length], part)
            position += length


_IOV_MAX = 1000


def _write_all(fd: int, parts: list[Any]) -> None:
    views = [memoryview(part) for part in parts if len(part)]
    first = 0
    while first < len(views):
        written = os.writev(fd, views[first : first + _IOV_MAX])
        while first < len(views) and written >= len(views[first]):
            written -= len(views[first])
            first += 1
        if written:
            views[first] = views[first][written:]


def _copy_file(source_fd: int, target: str, size: int) -> None:
    target_fd = os.open(target, _NEW_FILE, 0o600)
    try:
        done = 0
        while done < size:
            done += os.sendfile(target_fd, source_fd, done, size - done)
    finally:
        os.close(target_fd)
