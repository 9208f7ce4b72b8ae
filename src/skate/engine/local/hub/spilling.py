"""Which objects are in shared memory, and which go to disk when there are too many."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from skate import exceptions
from skate.engine.local.objects import Entry
from skate.engine.local.store import Location, SegmentMovedError, Store

_AFTER_FULL_DISK = 5.0  # seconds


class Spilling:
    """Stored objects, the coldest first. A read makes an object the warmest."""

    def __init__(self, store: Store, forget: Callable[[str], object]) -> None:
        self.bytes_in_memory = 0
        self._store = store
        self._forget = forget  # tell the process that wrote a segment that it is gone
        self._in_memory: dict[int, Entry] = {}
        self._not_before = 0.0  # the disk was full: spilling is pointless for a while

    def added(self, entry: Entry, location: Location) -> None:
        """A value was stored (before its entry is completed)."""
        name, size = location
        if name[0] == "s":
            self._in_memory[entry.id] = entry
            self.bytes_in_memory += size
            if self.bytes_in_memory > self._store.capacity:
                self._spill(self.bytes_in_memory - self._store.capacity, spare=entry)

    def removed(self, entry: Entry) -> None:
        if self._in_memory.pop(entry.id, None) is not None:
            self.bytes_in_memory -= entry.data[1]

    def names_in_memory(self) -> set[str]:
        return {entry.data[0] for entry in self._in_memory.values()}

    def used(self, entry: Entry) -> None:
        if entry.id in self._in_memory:
            self._in_memory[entry.id] = self._in_memory.pop(entry.id)

    def make_room(self, size: int) -> None:
        """Spill until a value of `size` keeps the store within its capacity."""
        excess = self.bytes_in_memory + size - self._store.capacity
        if excess > 0:
            self._spill(excess)

    def free_memory(self, size: int) -> bool:
        """Shared memory itself is full: spill at least `size` bytes; False if there are none."""
        return self._spill(size) > 0

    def _spill(self, wanted: int, spare: Entry | None = None) -> int:
        done = 0
        for entry in list(self._in_memory.values()):
            if done >= wanted or time.monotonic() < self._not_before:
                break
            if entry is spare:
                continue
            location: Any = entry.data
            try:
                moved = self._store.spill(location)
            except exceptions.OutOfDiskError:
                self._not_before = time.monotonic() + _AFTER_FULL_DISK
                break
            except SegmentMovedError:  # deleted from outside: reading it will tell
                self.removed(entry)
                continue
            self.removed(entry)
            entry.data = moved
            self._store.delete(location[0])
            self._forget(location[0])
            done += location[1]
        return done
