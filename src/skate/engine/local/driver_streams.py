"""Streaming generators as the driver iterates over them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate._core.refs import ObjectRef
from skate.engine.local.driver_waits import DriverWaits
from skate.engine.local.objects import INLINE, ObjectEntry, late
from skate.engine.local.reactor import Waiter

if TYPE_CHECKING:
    from skate.engine.local.hub.streams import ItemStream


class DriverStreams(DriverWaits):
    """The part of the driver's engine that is about streams, which the hub has at hand."""

    @abstractmethod
    def _write(self) -> None:
        """Write what a call has collected."""

    @abstractmethod
    def _tell_all(self) -> None:
        """Wake whoever waits for objects that this thread has completed."""

    def stream_next(
        self, generator: ObjectRef[object], index: int, timeout: float | None
    ) -> ObjectRef[Any] | None:
        entry, stream = self.entry_of(generator), self._stream_of(generator)
        waiter = Waiter()
        with self.lock:
            stream.when_ready(index, waiter.finish)
        try:
            if not waiter.done and not self._wait_for_item(waiter, timeout, entry):
                facts = self._facts_in_time([entry], timeout)
                raise late(f"no item {index} after {timeout} s", facts)
        finally:
            if not waiter.done:
                with self.lock:
                    stream.forget(waiter.finish)
        with self.lock:
            id = self.hub.streaming.take(entry, index)
            if id is None:
                return None
            ref = self.adopt(id)
            self.hub.counts.drop((id,))  # the stream's own hold
        self._write()
        return ref

    def _wait_for_item(self, waiter: Waiter, timeout: float | None, entry: ObjectEntry) -> bool:
        self._streams_waited.append(entry)
        try:
            return self._run_patiently(waiter, timeout, [entry])
        finally:
            self._streams_waited.remove(entry)

    def _stream_of(self, generator: ObjectRef[object]) -> ItemStream:
        stream = self.entry_of(generator).stream
        assert stream is not None
        return stream

    def stream_ready(self, generator: ObjectRef[object], index: int) -> bool:
        self.reactor.help()
        return self._stream_of(generator).ready(index)

    def stream_finished(self, generator: ObjectRef[object], index: int) -> bool:
        self.reactor.help()
        return self._stream_of(generator).ended(index)

    def stream_close(self, generator: ObjectRef[object], index: int) -> None:
        with self.lock:
            self.hub.streaming.close(self.entry_of(generator))
        self._tell_all()

    def stream_abandoned(self, generator: ObjectRef[object], index: int) -> None:
        """Do nothing: the generator's reference goes with it, and the stream with that."""

    def add_stream_callback(
        self, generator: ObjectRef[object], index: int, callback: Callable[[], None]
    ) -> None:
        stream = self._stream_of(generator)
        self.refuse_if_ended(generator)
        with self.lock:
            stream.when_ready(index, lambda: self.reactor.after.append(callback))
        self.reactor.interrupt()

    def _watch_item(self, generator: ObjectRef[object], index: int) -> ObjectEntry:
        entry = ObjectEntry(self.next_id())
        entry.task = self.entry_of(generator).task
        with self.lock:
            stream = self._stream_of(generator)
            stream.when_ready(index, lambda: self.complete(entry, INLINE, None))
        return entry
