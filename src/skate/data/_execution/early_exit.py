"""Leaving an iteration before its end.

A thread that works ahead may be waiting for a block when its consumer goes. Whatever it waits for
has said here how to call it off, so that nobody waits for what nobody wants.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar

_current: ContextVar[Cancellation | None] = ContextVar("skate.data.cancellation", default=None)


def close_early(items: Iterator[object]) -> None:
    """End an iterator that nobody wants the rest of; what fails in doing so concerns no one."""
    close = getattr(items, "close", None)
    if close is not None:
        with suppress(Exception):
            close()


class Cancellation:
    """The end of one consumer's interest, and what is to be called off then."""

    def __init__(self) -> None:
        self.declared = False
        self._calls: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @classmethod
    def of_consumer(cls) -> Cancellation:
        """Return that of the consumer whom this thread works ahead for, or one that never is."""
        return _current.get() or cls()

    def concerns_this_thread(self) -> None:
        """Let this thread work for that consumer from now on, and for nobody else."""
        _current.set(self)

    def then(self, call_off: Callable[[], None]) -> None:
        """Call `call_off` when the consumer goes, or now if it has gone already."""
        with self._lock:
            if not self.declared:
                self._calls.append(call_off)
                return
        call_off()

    def declare(self) -> None:
        """Say that the consumer has gone, and return at once: calling off may wait for a function
        of the user, where that runs in this process."""
        with self._lock:
            self.declared = True
        if self._calls:
            threading.Thread(target=self._call_off, name="skate-cancelling", daemon=True).start()

    def _call_off(self) -> None:
        for call in self._calls:
            with suppress(Exception):  # the session may be over
                call()
