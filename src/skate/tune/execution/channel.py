"""Between a trial and whoever decides about it.

    trial's thread                       worker's thread ── one call at a time ──► driver
      send(event) ───── events ─────────► exchange(verdict) returns them
      … waits if it has to … ◄─ verdict ─ … of the next call

A trial waits for a verdict where somebody may have one: at a checkpoint, when it reaches its stop
criteria, and at every result if a scheduler or stopper looks at them. Else it goes on at once, and
results travel in batches: whoever takes one waits a moment for those that follow at once.
"""

from __future__ import annotations

import threading

from skate.tune.execution.events import TrialEvent, TrialVerdict

_MOST_WAITING = 5000  # events, before a trial that does not wait has to
_GATHER_SECONDS = 0.002  # for what follows an event that nobody waits for


class Halted(SystemExit):
    """Raised in a trial at its report when it has been stopped."""


class Channel:
    """Events from the trial, verdicts to it."""

    def __init__(self) -> None:
        lock = threading.Lock()
        self._arrived = threading.Condition(lock)
        self._paused = threading.Condition(lock)  # the trial waits, or is over
        self._answered = threading.Condition(lock)
        self._events: list[TrialEvent] = []
        self._verdict: TrialVerdict | None = None
        self._waiting = False
        self._halting = False
        self.leaving = False  # the trial has understood, and is on its way out
        self.over: bool = False

    def send(self, event: TrialEvent, wait: bool) -> TrialVerdict:
        """Hand over an event; the verdict on it, or on the trial as a whole."""
        with self._answered:
            self._events.append(event)
            self._arrived.notify()
            if not wait:
                if len(self._events) > _MOST_WAITING:
                    self._answered.wait_for(lambda: not self._events)
                return TrialVerdict.HALT if self._halting else TrialVerdict.GO_ON
            self._verdict, self._waiting = None, True
            self._paused.notify()
            self._answered.wait_for(lambda: self._verdict is not None)
            self._waiting = False
            assert self._verdict is not None
            return self._verdict

    def answer(self, verdict: TrialVerdict) -> None:
        """Give the trial the verdict on all that was taken, and let it go on."""
        with self._answered:
            self._halting = self._halting or verdict.halts
            if self._waiting and not self._events:
                self._verdict = verdict
            self._answered.notify()

    def take(self, seconds: float) -> tuple[list[TrialEvent], bool]:
        """Take all events, as soon as there is one or the trial is over; none after `seconds`.
        Tell too whether these are the last: who asks for that later may hear of an end whose
        events came in between."""
        with self._arrived:
            self._arrived.wait_for(lambda: self._events or self.over, seconds)
            self._paused.wait_for(lambda: self._waiting or self.over, _GATHER_SECONDS)
            events, self._events = self._events, []
            self._answered.notify()
            return events, self.over

    def end(self) -> None:
        """Note that the trial is over, and wake who waits for its events."""
        with self._arrived:
            self.over = True
            self._arrived.notify()
            self._paused.notify()
