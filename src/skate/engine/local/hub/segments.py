"""Segments of shared memory as the hub accounts for them: stored, freed, given back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.engine.local import messages as m
from skate.engine.local.objects import DRIVER, ObjectEntry

if TYPE_CHECKING:
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.store import Location


class Segments:
    """Which segments there are, and whose they are once nobody needs them."""

    def __init__(
        self, ports: Ports, workers: dict[int, WorkerProcess], outbox: WorkerOutbox
    ) -> None:
        self._spilling = ports.spilling
        self._store = ports.store
        self._after_turn = ports.reactor.after
        self._workers = workers
        self._outbox = outbox

    def stored(self, entry: ObjectEntry, location: Location) -> None:
        """Note that a worker has stored a value."""
        self._spilling.added(entry, location)
        if self._spilling.excess > 0:  # spilled when the lock is free, before more is read
            self._after_turn.append(self._spilling.settle)

    def read(self, entry: ObjectEntry) -> None:
        """Note that a stored value is needed: the coldest are spilled first."""
        self._spilling.used(entry)

    def free_entry(self, entry: ObjectEntry) -> None:
        """Free the segment of an object that is gone."""
        self._spilling.removed(entry)
        self.free(entry.data)

    def free(self, location: Location) -> None:
        """Give a segment that nobody needs back to the process that wrote it, for its next
        value."""
        name, _ = location
        if name.startswith("d") or not self.recycle(name):
            self._store.delete(name)

    def recycle(self, name: str) -> bool:
        """Give a segment back to its writer; False if that is gone."""
        writer = int(name[1:].partition("-")[0])
        if writer == DRIVER:
            self._store.recycle(name)
        elif writer in self._workers:
            self._outbox.send(self._workers[writer], m.RecycleSegment(name), at_once=False)
        else:
            return False
        return True

    def delete(self, name: str) -> None:
        """Delete a segment that is not to be used again: somebody may have views on it."""
        self._store.delete(name)
        self.recycle(name)

    def delete_free_ones(self, writer: int, functions: set[str]) -> None:
        """Delete the segments that a worker, now gone, has kept for its next values."""
        self._store.delete_others(writer, self._spilling.names_in_memory() | functions)
