"""Between a trial and whoever decides about it.

    trial's thread                       worker's thread ── one call at a time ──► driver
      send(item) ────── items ──────────► exchange(verdict) returns them
      … waits if it has to … ◄─ verdict ─ … of the next call

A trial waits for a verdict where somebody may have one: at a checkpoint, when it reaches its stop
criteria, and at every result if a scheduler or stopper looks at them. Else it goes on at once, and
results travel in batches.
"""

from __future__ import annotations

import threading
from typing import Any

GO_ON = "continue"
SAVE = "save"
HALT = "halt"
HALT_AND_SAVE = "halt and save"

_MOST_WAITING = 5000


class Halted(SystemExit):
    """Raised in a trial at its report when it has been stopped."""


class Channel:
    """Items from the trial, verdicts to it."""

    def __init__(self) -> None:
        lock = threading.Lock()
        self._arrived = threading.Condition(lock)
        self._answered = threading.Condition(lock)
        self._items: list[Any] = []
        self._verdict: str | None = None
        self._waiting = False
        self._halting = False
        self.leaving = False  # the trial has understood, and is on its way out
        self.over = False

    def send(self, item: Any, wait: bool) -> str:
        """Hand over an item; the verdict on it, or on the trial as a whole."""
        with self._answered:
            self._items.append(item)
            self._arrived.notify()
            if not wait:
                if len(self._items) > _MOST_WAITING:
                    self._answered.wait_for(lambda: not self._items)
                return HALT if self._halting else GO_ON
            self._verdict, self._waiting = None, True
            self._answered.wait_for(lambda: self._verdict is not None)
            self._waiting = False
            assert self._verdict is not None
            return self._verdict

    def answer(self, verdict: str) -> None:
        """The verdict on all that was taken."""
        with self._answered:
            self._halting = self._halting or verdict in (HALT, HALT_AND_SAVE)
            if self._waiting and not self._items:
                self._verdict = verdict
            self._answered.notify()

    def take(self, seconds: float) -> tuple[list[Any], bool]:
        """All items, as soon as there is one or the trial is over; none after `seconds`. And
        whether these are the last: who asks for that later may hear of an end whose items came
        in between."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._items or self.over, seconds)
            items, self._items = self._items, []
            self._answered.notify()
            return items, self.over

    def end(self) -> None:
        """The trial is over."""
        with self._arrived:
            self.over = True
            self._arrived.notify()
