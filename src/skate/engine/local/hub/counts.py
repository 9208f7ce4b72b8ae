"""Reference counts of all objects, kept in the driver.

An object's count is the number of processes that hold it (a reference or a view on its segment),
of pending tasks that have it among their arguments, and of objects whose value contains a
reference to it. At zero it is freed, with what only it kept alive.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from skate.engine.local.objects import FAILED, STORED, ObjectEntry

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.workers import WorkerProcess


class Counts:
    """Counts on the driver's entries. `free_segment`, `ended`, `dropped` (one hold of several on
    what something stands behind) and `unread` (an error that nobody was told) are the hub's
    reactions."""

    def __init__(
        self,
        entries: dict[int, ObjectEntry],
        free_segment: Callable[[Any], None],
        ended: Callable[[ObjectEntry], None],
        dropped: Callable[[ObjectEntry], None],
        unread: Callable[[Packed], None],
    ) -> None:
        self._entries = entries
        self._free_segment = free_segment
        self._ended = ended
        self._dropped = dropped
        self._unread = unread

    def entry(self, id: int) -> ObjectEntry:
        """Return the entry of an id that someone has heard of; a new one is pending."""
        entry = self._entries.get(id)
        if entry is None:
            entry = self._entries[id] = ObjectEntry(id)
        return entry

    def add(self, ids: Iterable[int]) -> None:
        for id in ids:
            self.entry(id).count += 1

    def drop(self, ids: Iterable[int]) -> None:
        for id in ids:
            entry = self._entries.get(id)
            if entry is not None:
                self.drop_entry(entry)

    def drop_entry(self, entry: ObjectEntry) -> None:
        entry.count -= 1
        if entry.count <= 0:
            self._free(entry)
        elif entry.task is not None:
            self._dropped(entry)

    def hold(self, worker: WorkerProcess, ids: Iterable[int]) -> None:
        """Count the first reference or view of a worker."""
        # An actor with a handle to itself would never end.
        own = worker.actor.id if worker.actor is not None else None
        for id in ids:
            if id not in worker.holds and id != own:
                worker.holds.add(id)
                self.entry(id).count += 1

    def release(self, worker: WorkerProcess, ids: Iterable[int]) -> None:
        for id in ids:
            if id in worker.holds:
                worker.holds.discard(id)
                self.drop((id,))

    def _free(self, entry: ObjectEntry) -> None:
        # A loop, not recursion: a chain of objects that contain each other may be long.
        unheld = [entry]
        while unheld:
            entry = unheld.pop()
            self._entries.pop(entry.id, None)
            if entry.kind == STORED:
                self._free_segment(entry)
            elif entry.kind == FAILED and not entry.read:
                self._unread(entry.data)
            for id in entry.contained:
                inner = self._entries.get(id)
                if inner is not None:
                    inner.count -= 1
                    if inner.count <= 0:
                        unheld.append(inner)
                    elif inner.task is not None:
                        self._dropped(inner)
            entry.contained = ()
            if entry.task is not None or entry.stream is not None:
                self._ended(entry)
