"""Functions and classes that were exported: kept while somebody can send work of them."""

from __future__ import annotations

import weakref
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING

from skate.engine.local import messages as m
from skate.engine.local.hub.work import ExportedFunction
from skate.engine.local.objects import STORED

if TYPE_CHECKING:
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.segments import Segments
    from skate.engine.local.hub.state import State
    from skate.engine.local.hub.workers import WorkerProcess

_MOST_BYTES_SEARCHED = 65536  # of a pickle, for the names of modules


class Functions:
    """Keeps what exported functions need, and knows which worker has been sent which."""

    def __init__(
        self, state: State, counts: Counts, segments: Segments, outbox: WorkerOutbox
    ) -> None:
        self._state = state
        self._counts = counts
        self._segments = segments
        self._outbox = outbox
        # Keys of those that nobody can send work of: `forget_gone` has something to do.
        self.gone: deque[int] = deque()
        # By key: references in their closures, and the segments that they are stored in.
        self._kept: dict[int, tuple[Sequence[int], str]] = {}

    def keep(self, function: ExportedFunction, nested: Sequence[int]) -> None:
        """Keep what a function needs for as long as there are tasks of it, or someone who could
        send one."""
        self._counts.add(nested)
        segment, _ = function.data if function.kind == STORED else ("", 0)
        self._kept[function.key] = (nested, segment)
        weakref.finalize(function, self.gone.append, function.key).atexit = False

    def forget_gone(self) -> None:
        """Let go of what was kept for functions that are gone, and of these in workers."""
        while self.gone:
            key = self.gone.popleft()
            for worker in self._state.workers.values():
                if key in worker.functions:
                    worker.functions.discard(key)
                    self._outbox.send(worker, m.ForgetFunction(key), at_once=False)
            nested, segment = self._kept.pop(key)
            self._counts.drop(nested)
            if segment:  # which is not used again: who has run the function may have views on it
                self._segments.delete(segment)

    def segments_in_use(self) -> set[str]:
        """Return the names of the segments that functions are stored in."""
        return {segment for _, segment in self._kept.values()}

    def ensure(self, worker: WorkerProcess, function: ExportedFunction) -> None:
        """Send a function to a worker that does not have it."""
        if function.key not in worker.functions:
            worker.functions.add(function.key)
            message = m.DefineFunction(function.key, function.kind, function.data, function.name)
            self._outbox.send(worker, message, at_once=False)

    # -- messages ------------------------------------------------------------------------------

    def on_export(
        self,
        worker: WorkerProcess,
        key: int,
        kind: int,
        data: object,
        name: str,
        nested: Sequence[int],
    ) -> None:
        """Keep a function that the worker will submit tasks of."""
        uses = data[:_MOST_BYTES_SEARCHED] if isinstance(data, bytes) else b""
        function = ExportedFunction(key, kind, data, name, uses)
        self.keep(function, nested)
        self._state.functions[key] = function
        worker.exported.add(key)

    def on_unexport(self, worker: WorkerProcess, key: int) -> None:
        """Forget one that it cannot submit any more. Tasks that are under way have the function
        themselves."""
        worker.exported.discard(key)
        self._state.functions.pop(key, None)

    def drop_exports(self, worker: WorkerProcess) -> None:
        """Forget the functions of a worker that is gone; tasks that are under way have theirs."""
        for key in worker.exported:
            del self._state.functions[key]
