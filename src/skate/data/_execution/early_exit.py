"""Leaving an iteration before its end.

A thread that works ahead may be waiting for a block when its consumer goes. Whatever it waits for
has said here how to call it off, so that nobody waits for what nobody wants.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from contextvars import ContextVar

_current: ContextVar[Departure | None] = ContextVar("skate.data.departure", default=None)


def close_early(items: Iterator[object]) -> None:
    """End an iterator that nobody wants the rest of; what fails in doing so concerns no one."""
    close = getattr(items, "close", None)
    if close is not None:
        with suppress(Exception):
            close()


class Departure:
    """Of one consumer."""

    def __init__(self) -> None:
        self.declared = False
        self._calls: list[Callable[[], None]] = []
        self._lock = threading.Lock()

    @classmethod
    def of_consumer(cls) -> Departure:
        """Of the one that this thread works ahead for; without one it never happens."""
        return _current.get() or cls()

    def concerns_this_thread(self) -> None:
        """From now on this thread works for that consumer, and nothing else."""
        _current.set(self)

    def then(self, call_off: Callable[[], None]) -> None:
        """What is to be called when it happens, or now if it has happened already."""
        with self._lock:
            if not self.declared:
                self._calls.append(call_off)
                return
        call_off()

    def declare(self) -> None:
        """The consumer has gone. Returns at once: calling off may wait for a function of the user,
        where that runs in this process."""
        with self._lock:
            self.declared = True
        if self._calls:
            threading.Thread(target=self._call_off, name="skate-leaving", daemon=True).start()

    def _call_off(self) -> None:
        for call in self._calls:
            with suppress(Exception):  # the session may be over
                call()
