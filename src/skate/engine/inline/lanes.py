"""In which order calls run: at once, unless they must wait for arguments that an async actor has
not yet produced. Those, and what comes after them in the same lane, run on a thread of their own.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.inline.objects import Objects

Step = tuple["list[ObjectRef[Any]]", Callable[[], None]]


class Lane:
    """Runs calls one after the other, in the order they were made."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._queue: deque[Step] = deque()
        self._running = threading.RLock()  # a method may call its own actor
        self._thread: threading.Thread | None = None
        self._guard = threading.Lock()

    def run(self, awaited: list[ObjectRef[Any]], function: Callable[[], None]) -> None:
        with self._guard:
            waits = self._thread is not None or not self._ready(awaited)
            if waits:
                self._queue.append((awaited, function))
                if self._thread is None:
                    self._thread = threading.Thread(target=self._work, daemon=True)
                    self._thread.start()
        if not waits:
            with self._running:
                function()

    def _ready(self, refs: list[ObjectRef[object]]) -> bool:
        return all(self._objects.ready(ref) for ref in refs)

    def _await(self, refs: list[ObjectRef[object]]) -> None:
        self._objects.wait_for(lambda: all(ref._entry.done for ref in refs), None)

    def _work(self) -> None:
        while True:
            with self._guard:
                if not self._queue:
                    self._thread = None
                    return
                awaited, function = self._queue.popleft()
            self._await(awaited)
            if not self._objects.closed:
                with self._running:
                    function()
            del awaited, function  # not kept while the thread waits for others
