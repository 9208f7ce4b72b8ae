"""Streams of values: from the worker that yields them to whoever iterates."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from skate.engine.local import messages as m
from skate.engine.local.objects import FAILED, ObjectEntry

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.streams import ItemStream
    from skate.engine.local.hub.values import Values
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.hub.workers import WorkerProcess


class Streaming:
    """Items come in, are taken or abandoned, and tell the producer how far the consumer is."""

    def __init__(
        self,
        entries: dict[int, ObjectEntry],
        values: Values,
        counts: Counts,
        outbox: WorkerOutbox,
        new_id: Callable[[], int],
        give_up: Callable[[HubTask], None],
    ) -> None:
        self._entries = entries
        self._values = values
        self._counts = counts
        self._outbox = outbox
        self._new_id = new_id
        self._give_up = give_up  # on a task that has not started: nobody wants what it produces

    def on_item(
        self,
        worker: WorkerProcess,
        task_id: int,
        position: int,
        id: int,
        kind: int,
        data: object,
        contained: Sequence[int],
    ) -> None:
        """Keep an item that a task has yielded, if anybody wants it."""
        entry = self._entries.get(task_id)
        stream = entry.stream if entry is not None else None
        if stream is None or stream.abandoned:
            self._values.discard(kind, data)
            self._outbox.send(worker, m.GrantCredit(task_id, -1))
            return
        if position < stream.produced:  # the task runs again, and knows nothing of its consumer
            self._values.discard(kind, data)
            if stream.taken:
                self._outbox.send(worker, m.GrantCredit(task_id, stream.taken))
            return
        self._counts.add((id,))  # kept by the stream until it is taken
        self._values.complete(id, kind, data, contained)
        stream.add(position, id)

    def finish(self, entry: ObjectEntry) -> None:
        """End the stream of a task that is over."""
        assert entry.stream is not None
        if entry.kind == FAILED:
            self.add_error(entry.stream, entry.data)
        entry.stream.finish()

    def add_error(self, stream: ItemStream, error: Packed) -> None:
        """Add an error as the last item."""
        if not stream.abandoned and not stream.finished:
            id = self._new_id()
            self._counts.add((id,))
            self._values.complete(id, FAILED, error)
            stream.add(stream.produced, id)

    def take(self, entry: ObjectEntry, index: int) -> int | None:
        """Return the id of an item that is there, now the caller's to hold; None at the end."""
        stream = entry.stream
        assert stream is not None
        id = stream.items.pop(index, None)
        if id is None:
            return None
        stream.taken = max(stream.taken, index + 1)
        task = entry.task
        if task is not None and task.worker is not None:
            settings = task.plan.settings
            if settings and "backpressure" in settings:
                self._outbox.send(task.worker, m.GrantCredit(task.id, index + 1))
        return id

    def close(self, entry: ObjectEntry) -> None:
        """Abandon a stream whose consumer wants no more, unless that is done already."""
        if entry.stream is not None and not entry.stream.abandoned:
            self.abandon(entry)

    def abandon(self, entry: ObjectEntry) -> None:
        """Drop the items that nobody will take, and stop the producer."""
        stream = entry.stream
        assert stream is not None
        self._counts.drop(stream.abandon())
        task = entry.task
        if task is None or stream.finished:
            return
        if task.worker is not None:
            self._outbox.send(task.worker, m.GrantCredit(task.id, -1))
        elif not task.cancelled:
            self._give_up(task)
