"""Streams of values: from the worker that yields them to whoever iterates."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from skate.engine.local import messages as m
from skate.engine.local.hub.streams import Stream
from skate.engine.local.hub.values import Values
from skate.engine.local.hub.work import Task
from skate.engine.local.hub.workers import Worker
from skate.engine.local.objects import FAILED, Entry


class Streaming(Values):
    """Items come in, are taken or abandoned, and tell the producer how far the consumer is."""

    @abstractmethod
    def give_up(self, task: Task) -> None:
        """Nobody wants what a task that has not started would produce."""

    def on_item(
        self,
        worker: Worker,
        task_id: int,
        position: int,
        id: int,
        kind: int,
        data: Any,
        contained: Any,
    ) -> None:
        stream = self._stream(task_id)
        if stream is None or stream.abandoned:
            self._discard(kind, data)
            self.processes.send(worker, m.GrantCredit(task_id, -1))
            return
        if position < stream.produced:  # the task runs again, and knows nothing of its consumer
            self._discard(kind, data)
            if stream.taken:
                self.processes.send(worker, m.GrantCredit(task_id, stream.taken))
            return
        self.counts.add((id,))  # kept by the stream until it is taken
        self._complete(id, kind, data, contained)
        stream.add(position, id)

    def _stream(self, task_id: int) -> Stream | None:
        entry = self.engine.entries.get(task_id)
        return entry.stream if entry is not None else None

    def _finish_stream(self, entry: Entry) -> None:
        stream: Stream = entry.stream
        if entry.kind == FAILED:
            self._add_error(stream, entry.data)
        stream.finish()

    def _add_error(self, stream: Stream, error: Any) -> None:
        """As the last item."""
        if not stream.abandoned and not stream.finished:
            id = self.engine.next_id()
            self.counts.add((id,))
            self._complete(id, FAILED, error, ())
            stream.add(stream.produced, id)

    def take_item(self, entry: Entry, index: int) -> int | None:
        """The id of an item that is there, now the caller's to hold; None at the end."""
        id: int | None = entry.stream.items.pop(index, None)
        if id is not None:
            entry.stream.taken = max(entry.stream.taken, index + 1)
        task = entry.task
        if id is None or task is None or task.worker is None:
            return id
        if task.plan.settings and "backpressure" in task.plan.settings:
            self.processes.send(task.worker, m.GrantCredit(task.id, index + 1))
        return id

    def close_stream(self, entry: Entry) -> None:
        if entry.stream is not None and not entry.stream.abandoned:
            self._abandon_stream(entry)

    def _abandon_stream(self, entry: Entry) -> None:
        stream: Stream = entry.stream
        self.counts.drop(stream.abandon())
        task = entry.task
        if task is None or stream.finished:
            return
        if task.worker is not None:
            self.processes.send(task.worker, m.GrantCredit(task.id, -1))
        elif not task.cancelled:
            self.give_up(task)
