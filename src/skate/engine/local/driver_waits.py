"""Waits of the driver that last: what they wait for is said once, and errors carry it.

A wait that ends in time pays for none of this. After `SKATE_EXPLAIN_WAITS_AFTER` seconds (10; 0:
never), workers are asked what they wait for themselves, and one line is written: also for programs
that wait in short turns, `wait(refs, timeout=1)`, once none of these has brought anything for as
long. Threads without a frame of the user's, such as the libraries' own, wait silently.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterable
from itertools import islice
from typing import TYPE_CHECKING, Any

from skate._core import notices
from skate.engine.local.objects import Needs, ObjectEntry, ObjectTable, main_reason
from skate.engine.local.reactor import Waiter

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.local.driver_awaits import DriverAwaits
    from skate.engine.local.hub.hub import Hub
    from skate.engine.local.interrupts import Interrupts

_ANSWER_SECONDS = 1.0  # that workers have to say what they wait for
_ANSWER_SECONDS_IN_ERRORS = 0.25  # the same where a time-out is over already
_ANSWER_SECONDS_TO_COMMANDS = 0.5  # the same where somebody looks on
_ASK_AFTER_SECONDS = 1.0  # shorter time-outs are told what the hub knows
_TURN_SECONDS = 0.02
_MOST_LINES = 20  # of a session
_MOST_REMEMBERED = 100  # objects of a wait in short turns


class DriverWaits(ObjectTable):
    """The part of the driver's engine that is about waits which last."""

    hub: Hub
    interrupts: Interrupts

    def __init__(self, process: int) -> None:
        super().__init__(process)
        self._patience: float | None = patience()
        self._awaits: DriverAwaits | None = None  # made with the first one
        self._streams_waited: list[ObjectEntry] = []  # for their next items
        self._waits_said: set[tuple[str, str]] = set()  # cause and name
        # By thread: since when turns of a wait have brought nothing, and some of its objects.
        self._stalls: dict[int, tuple[float, list[ObjectEntry]]] = {}

    def _while_blocked(self, needs: Needs, timeout: float | None) -> bool:
        return self._run_patiently(needs, timeout, needs.wanted)

    def _run_patiently(
        self, waiter: Waiter, timeout: float | None, wanted: Iterable[ObjectEntry]
    ) -> bool:
        """Wait; False on time-out. Say why it takes long, if it does."""
        patience = self._patience
        if patience is None:
            return self.interrupts.wait(waiter, timeout)
        if timeout is not None and timeout <= patience:
            done = self.interrupts.wait(waiter, timeout)
            if not done:
                self._turn_was_for_nothing(patience, wanted)
            return done
        if self.interrupts.wait(waiter, patience) or self.reactor.closed:
            return waiter.done
        self._explain(waiter, wanted, patience)
        return self.interrupts.wait(waiter, None if timeout is None else timeout - patience)

    def _turn_was_for_nothing(self, patience: float, wanted: Iterable[ObjectEntry]) -> None:
        thread, now = threading.get_ident(), time.monotonic()
        since, before = self._stalls.get(thread, (now, []))
        fresh = not before or any(entry.kind is not None for entry in before)
        if fresh or before[0] not in (wanted := set(wanted)):
            self._stalls[thread] = now, list(islice(wanted, _MOST_REMEMBERED))
        elif now - since >= patience and not self.reactor.closed:
            self._stalls[thread] = float("inf"), before  # once
            self._explain(None, wanted, now - since)

    @property
    def awaits(self) -> DriverAwaits | None:
        if self._awaits is None and self._patience is not None:
            from skate.engine.local.driver_awaits import DriverAwaits  # and asyncio

            self._awaits = DriverAwaits(self._patience, self._explain_await)
        return self._awaits

    # -- the facts -----------------------------------------------------------------------------

    def _explain(
        self, waiter: Waiter | None, wanted: Iterable[ObjectEntry], seconds: float
    ) -> None:
        if len(self._waits_said) >= _MOST_LINES or notices.is_patient() or not notices.enabled():
            return
        place = _user_place()
        if place is not None:
            self._say(place, self.wait_facts(wanted, waiter=waiter), seconds)

    def _explain_await(self, ref: ObjectRef[object], place: str, seconds: float) -> None:
        if len(self._waits_said) < _MOST_LINES and notices.enabled() and not self.reactor.closed:
            self._say(place, self.wait_facts([ref._entry]), seconds)

    def _say(self, place: str, rows: list[dict[str, Any]], seconds: float) -> None:
        keys = [(row["cause"], row["name"]) for row in rows]
        if rows and not self._waits_said.issuperset(keys):
            self._waits_said.update(keys)
            notices.say(f"{place} has waited {seconds:.0f} s: {main_reason(rows)}")

    def wait_facts(
        self,
        wanted: Iterable[ObjectEntry] | None = None,
        seconds: float = _ANSWER_SECONDS,
        waiter: Waiter | None = None,
    ) -> list[dict[str, Any]]:
        """Return why these objects are not there, a row for each; without them, of all that
        threads of the driver wait for. Workers have `seconds` to say what they wait for; the
        answer comes earlier when they have, or when the waiter is done."""
        if seconds > 0:
            self._ask_workers(seconds, waiter)
        with self.lock:
            return self.hub.waits.facts(self.wanted() if wanted is None else wanted)

    def wait_graph(self) -> dict[str, Any]:
        """Return who waits for whom: for the driver, and in all that is under way."""
        self._ask_workers(_ANSWER_SECONDS_TO_COMMANDS)
        with self.lock:
            return self.hub.waits.drawing(self.wanted())

    def wanted(self) -> list[ObjectEntry]:
        awaited = self._awaits.entries() if self._awaits is not None else ()
        return [*super().wanted(), *self._streams_waited, *awaited]

    def _ask_workers(self, seconds: float, waiter: Waiter | None = None) -> None:
        """Have workers say what they wait for; not longer than until the waiter is done."""
        waits = self.hub.waits
        with self.lock:
            waits.ask()
        self.reactor.flush()
        end = time.monotonic() + seconds
        waiter = waiter if waiter is not None else Waiter()
        while waits.asked and not waiter.done and time.monotonic() < end:
            self.interrupts.wait(waiter, _TURN_SECONDS)

    def _facts_in_time(
        self, wanted: Iterable[ObjectEntry], timeout: float | None
    ) -> list[dict[str, Any]]:
        ask = timeout is not None and timeout >= _ASK_AFTER_SECONDS
        return self.wait_facts(wanted, _ANSWER_SECONDS_IN_ERRORS if ask else 0.0)


def patience() -> float | None:
    """Return after how many seconds a wait is explained; None: never."""
    text = os.environ.get("SKATE_EXPLAIN_WAITS_AFTER", "10")
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(
            f"SKATE_EXPLAIN_WAITS_AFTER takes a number of seconds, 0 for never; got {text!r}"
        ) from None
    return seconds if seconds > 0 else None


def _user_place() -> str | None:
    """Return what the user has called and where, such as "get (train.py:31)"."""
    from skate._core import places

    frames = [*places.outwards(sys._getframe(1))]
    place = places.own_frame(frames)
    if place is None:
        return None
    inwards = (frame.f_code.co_name for frame in frames[frames.index(place) - 1 :: -1])
    called = next(name for name in inwards if name.startswith("__") or name[0] != "_")
    return f"{called}() ({places.file_of(place)}:{place.f_lineno})"
