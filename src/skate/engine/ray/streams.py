"""Streaming generators: Ray's, item by item."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

import ray

from skate.exceptions import GetTimeoutError

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.ray.references import RayStream, References


def take(
    stream: RayStream, index: int, timeout: float | None, references: References
) -> ObjectRef[object] | None:
    try:
        item = stream.generator._next_sync(timeout_s=timeout)
    except StopIteration:
        return None
    if item.is_nil():
        raise GetTimeoutError(f"item {index} is not there after {timeout} s")
    return references.new(item)


def is_ready(stream: RayStream) -> bool:
    return bool(stream.generator.next_ready() or stream.generator.is_finished())


def is_finished(stream: RayStream) -> bool:
    return bool(stream.generator.is_finished())


class Closing:
    """Stops tasks whose items nobody wants. Ray frees the items, but lets the task run on.

    A thread does that, because streams are abandoned in destructors, where Ray must not be called.
    """

    def __init__(self) -> None:
        self._abandoned: SimpleQueue[Any] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def watch(self) -> None:
        """Start the thread that ends streams: there are some from now on."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._work, name="skate-streams", daemon=True)
            self._thread.start()

    def close(self, stream: RayStream) -> None:
        """End a stream, from anywhere, also from a destructor."""
        generator, stream.generator = stream.generator, None
        self._abandoned.put(generator)

    def _work(self) -> None:
        while (generator := self._abandoned.get()) is not None:
            with contextlib.suppress(Exception):  # it may have gone, with its cluster
                if not generator.is_finished():
                    ray.cancel(generator, recursive=True)
            del generator

    def end(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self._abandoned.put(None)
            thread.join()


def when_ready(stream: RayStream, callback: Callable[[], None]) -> None:
    generator = stream.generator
    if is_ready(stream):
        callback()
        return
    worker = generator.worker.core_worker
    upcoming, _ = worker.peek_object_ref_stream(generator.completed())
    upcoming._on_completed(lambda _: callback())
