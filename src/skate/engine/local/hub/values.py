"""Values of objects, as the hub keeps and passes them on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.objects import FAILED, INLINE, STORED, ObjectEntry

if TYPE_CHECKING:
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.segments import Segments
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.unread import PackedUnreadErrors

NONE = serialization.dumps(None).packed()


class Values:
    """Completes objects, and tells workers that want to know."""

    def __init__(
        self,
        ports: Ports,
        entries: dict[int, ObjectEntry],
        counts: Counts,
        segments: Segments,
        outbox: WorkerOutbox,
        unread: PackedUnreadErrors,
    ) -> None:
        self._complete_entry = ports.complete
        self._on_complete = ports.on_complete
        self._entries = entries
        self._counts = counts
        self._segments = segments
        self._outbox = outbox
        self._unread = unread

    def complete(self, id: int, kind: int, data: Any, contained: Sequence[int] = ()) -> None:
        """Give an object its value, if anybody still wants it and it has none."""
        entry = self._entries.get(id)
        if entry is None or entry.kind is not None:
            self.discard(kind, data)
            if entry is None:
                if id in self._unread.told:
                    self._unread.told.discard(id)
                elif kind == FAILED:
                    self._unread.add(data)
            return
        if contained:
            self._counts.add(contained)
            entry.contained = contained
        if kind == STORED:
            self._segments.stored(entry, data)
        self._complete_entry(entry, kind, data)

    def complete_with_none(self, id: int) -> None:
        """Complete an object that stands for an event: its value is None."""
        self.complete(id, INLINE, NONE)

    def fail_from_now_on(self, id: int, error: Any) -> None:
        """Make an event, whether it has happened or not, an error for whoever asks later; it is
        no news."""
        entry = self._entries.get(id)
        if entry is None:
            return
        entry.read = True
        if entry.kind is None:
            self.complete(id, FAILED, error)
        else:
            entry.kind, entry.data = FAILED, error

    def discard(self, kind: int, data: Any) -> None:
        """Free a value that nobody wants."""
        if kind == STORED:
            self._segments.free(data)

    # -- messages ------------------------------------------------------------------------------

    def on_subscribe(self, worker: WorkerProcess, ids: Sequence[int]) -> None:
        """Tell the worker these values, each as soon as it is there."""
        for id in ids:
            entry = self._counts.entry(id)
            entry.read = True
            self._on_complete(entry, lambda entry: self._tell(worker, entry))

    def _tell(self, worker: WorkerProcess, entry: ObjectEntry) -> None:
        assert entry.kind is not None
        if entry.kind == STORED:
            self._segments.read(entry)
        self._outbox.send(worker, m.TellValue(entry.id, entry.kind, entry.data))

    def on_put(
        self, worker: WorkerProcess, id: int, kind: int, data: object, contained: Sequence[int]
    ) -> None:
        """Keep a value that the worker has made, and holds."""
        worker.promised.discard(id)
        self._counts.hold(worker, (id,))
        self.complete(id, kind, data, contained)

    def on_promise(self, worker: WorkerProcess, ids: Sequence[int]) -> None:
        """Note that only the worker can complete these."""
        worker.promised.update(ids)
        self._counts.hold(worker, ids)
