"""Streaming generators as a worker iterates over them: the hub is asked for each item."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any

from skate._core import serialization
from skate._core.refs import ObjectRef
from skate.engine.local import messages as m
from skate.engine.local.objects import ObjectEntry, ObjectTable


class WorkerStreams(ObjectTable):
    """The part of a worker's engine that is about streams."""

    @abstractmethod
    def send(self, message: tuple[object, ...]) -> None:
        """Send one of `messages` to the hub; the lock is held, or order does not matter."""

    @abstractmethod
    def request(self, method: str, *args: object, blocking: bool = False) -> Any:
        """Ask the hub something and wait for the answer; CPUs are given back if `blocking`."""

    @abstractmethod
    def given(self, id: int) -> ObjectRef[Any]:
        """Return a reference to an object whose id came in an answer."""

    def stream_next(
        self, generator: ObjectRef[object], index: int, timeout: float | None
    ) -> ObjectRef[Any] | None:
        self.refuse_if_ended(generator)
        id = self.request("stream_next", generator._id, index, timeout, blocking=True)
        return None if id is None else self.given(id)

    def stream_ready(self, generator: ObjectRef[object], index: int) -> bool:
        self.refuse_if_ended(generator)
        return bool(self.request("stream_ready", generator._id, index))

    def stream_finished(self, generator: ObjectRef[object], index: int) -> bool:
        self.refuse_if_ended(generator)
        return bool(self.request("stream_finished", generator._id, index))

    def stream_close(self, generator: ObjectRef[object], index: int) -> None:
        self.request("stream_close", generator._id)

    def stream_abandoned(self, generator: ObjectRef[object], index: int) -> None:
        """Do nothing: the generator's reference goes with it, and the stream with that."""

    def add_stream_callback(
        self, generator: ObjectRef[object], index: int, callback: Callable[[], None]
    ) -> None:
        self.refuse_if_ended(generator)
        with self.lock:
            entry = self._watch_item(generator, index)
            self.on_complete(entry, lambda _: self.reactor.after.append(callback))
        self.reactor.flush()

    def _watch_item(self, generator: ObjectRef[object], index: int) -> ObjectEntry:
        entry = ObjectEntry(self.next_id())
        entry.asked = True
        with self.lock:
            self.entries[entry.id] = entry
            self.on_complete(entry, self._forget_watch)
            args = serialization.dumps((generator._id, index)).packed()
            self.send(m.AskHub(entry.id, "stream_wait", args))
        return entry

    def _forget_watch(self, entry: ObjectEntry) -> None:
        self.entries.pop(entry.id, None)
