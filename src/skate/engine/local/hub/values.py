"""Values of objects, as the hub keeps and passes them on."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub.counts import Counts
from skate.engine.local.hub.processes import Processes
from skate.engine.local.hub.workers import Worker
from skate.engine.local.objects import STORED, Entry

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine

NONE = serialization.dumps(None).packed()


class Values(ABC):
    """Completing, passing on and freeing values."""

    def __init__(self, engine: LocalEngine, processes: Processes) -> None:
        self.engine = engine
        self.processes = processes
        self.counts = Counts(
            engine.entries, self._free_segment, self._producer_unwanted, self._less_wanted
        )

    def _complete(self, id: int, kind: int, data: Any, contained: Sequence[int]) -> None:
        entry = self.engine.entries.get(id)
        if entry is None or entry.kind is not None:
            self._discard(kind, data)
            return
        if contained:
            self.counts.add(contained)
            entry.contained = contained
        if kind == STORED:
            self.engine.stored(entry, data)
        self.engine.complete(entry, kind, data)

    def _discard(self, kind: int, data: Any) -> None:
        if kind == STORED:
            self.processes.free_segment(data)

    def on_subscribe(self, worker: Worker, ids: Sequence[int]) -> None:
        """The worker wants the values, each as soon as it is there."""
        for id in ids:
            entry = self.counts.entry(id)
            self.engine.on_complete(entry, lambda entry: self._tell_value(worker, entry))

    def _tell_value(self, worker: Worker, entry: Entry) -> None:
        if entry.kind == STORED:
            self.engine.spilling.used(entry)
        assert entry.kind is not None
        self.processes.send(worker, m.TellValue(entry.id, entry.kind, entry.data))

    def on_put(self, worker: Worker, id: int, kind: int, data: Any, contained: Any) -> None:
        worker.promised.discard(id)
        self.counts.hold(worker, (id,))
        self._complete(id, kind, data, contained)

    def on_promise(self, worker: Worker, ids: Sequence[int]) -> None:
        worker.promised.update(ids)
        self.counts.hold(worker, ids)

    def _free_segment(self, entry: Entry) -> None:
        self.engine.forget_stored(entry)
        self.processes.free_segment(entry.data)

    @abstractmethod
    def _producer_unwanted(self, entry: Entry) -> None:
        """Nobody can ask for the entry any more; what stands behind it may end."""

    @abstractmethod
    def _less_wanted(self, entry: Entry) -> None:
        """One of several holds on an entry is gone; what stands behind it may be unreachable."""
