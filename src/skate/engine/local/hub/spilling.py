"""Which objects are in shared memory, and which go to disk when there are too many.

Objects are chosen and exchanged under the engine's lock, and copied without it: a disk may be
slow, and nobody but the one who needs the room has to wait for it. What is freed while it is
copied is not missed: the copy is thrown away.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from skate import exceptions
from skate.engine.local.objects import ObjectEntry
from skate.engine.local.store import Location, SegmentMovedError, Store

_FULL_DISK_SECONDS = 5.0  # without spilling, after a full disk


class Spilling:
    """Stored objects, the coldest first. A read makes an object the warmest.

    `make_room`, `free_memory` and `settle` are called without the lock, the others with it.
    """

    def __init__(
        self, store: Store, forget: Callable[[str], object], lock: AbstractContextManager[object]
    ) -> None:
        self.bytes_in_memory: int = 0
        self._store = store
        self._forget = forget  # tell the process that wrote a segment that it is gone
        self._lock = lock
        self._in_memory: dict[int, ObjectEntry] = {}
        self._leaving: dict[int, ObjectEntry] = {}  # being copied
        self._not_before = 0.0  # the disk was full: spilling is pointless for a while

    @property
    def excess(self) -> int:
        """Return by how much the store is above its capacity."""
        return self.bytes_in_memory - self._store.capacity

    def added(self, entry: ObjectEntry, location: Location) -> None:
        """Note that a value was stored (before its entry is completed)."""
        name, size = location
        if name[0] == "s":
            self._in_memory[entry.id] = entry
            self.bytes_in_memory += size

    def removed(self, entry: ObjectEntry) -> None:
        if self._in_memory.pop(entry.id, None) or self._leaving.pop(entry.id, None):
            self.bytes_in_memory -= entry.data[1]

    def names_in_memory(self) -> set[str]:
        entries = (*self._in_memory.values(), *self._leaving.values())
        return {entry.data[0] for entry in entries}

    def used(self, entry: ObjectEntry) -> None:
        if entry.id in self._in_memory:
            self._in_memory[entry.id] = self._in_memory.pop(entry.id)

    def make_room(self, size: int) -> None:
        """Spill until a value of `size` keeps the store within its capacity."""
        excess = self.excess + size
        if excess > 0:
            self._spill(excess)

    def settle(self) -> None:
        """Spill until the store is within its capacity, or the newest value alone is too much."""
        if self.excess > 0:
            self._spill(self.excess, spare_newest=True)

    def free_memory(self, size: int) -> bool:
        """Spill at least `size` bytes, as shared memory itself is full; False if there are
        none."""
        return self._spill(size) > 0

    def _spill(self, wanted: int, spare_newest: bool = False) -> int:
        done = 0
        while done < wanted and time.monotonic() >= self._not_before:
            with self._lock:
                entry = self._take_coldest(spare_newest)
            if entry is None:
                break
            done += self._copy(entry)
        return done

    def _take_coldest(self, spare_newest: bool) -> ObjectEntry | None:
        """Take what to spill next. What is mapped here comes last: that frees no memory."""
        if len(self._in_memory) <= spare_newest:
            return None
        entries = self._in_memory.values()
        first = next(iter(entries))
        entry = next((entry for entry in entries if not entry.mapped), first)
        if spare_newest and entry is next(reversed(entries)):
            entry = first
        del self._in_memory[entry.id]
        self._leaving[entry.id] = entry
        return entry

    def _copy(self, entry: ObjectEntry) -> int:
        """Copy an object to disk, and return how many bytes are free now."""
        location: Any = entry.data
        moved = None
        lost = False
        try:
            moved = self._store.spill(location)
        except SegmentMovedError:  # deleted from outside: reading it will tell
            lost = True
        except (exceptions.OutOfDiskError, OSError):
            self._not_before = time.monotonic() + _FULL_DISK_SECONDS
        finally:
            with self._lock:
                freed = self._exchange(entry, location, moved, lost)
        return freed

    def _exchange(
        self, entry: ObjectEntry, old: Location, moved: Location | None, lost: bool
    ) -> int:
        if lost or entry.id not in self._leaving:  # freed while it was copied
            self.removed(entry)
            if moved is not None:
                self._store.delete(moved[0])
            return 0
        if moved is None:
            del self._leaving[entry.id]
            self._in_memory = {entry.id: entry, **self._in_memory}
            return 0
        self.removed(entry)
        entry.data = moved
        self._store.delete(old[0])
        self._forget(old[0])
        return old[1]
