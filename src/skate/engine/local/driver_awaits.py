"""Awaits of the driver that last: said once what they wait for, as of `get`.

An await is noted in a dictionary and taken out of it again; a timer of the event loop looks from
time to time for those that are old, while there are any. Loops without a coroutine of the user's,
such as the libraries' own, wait silently.
"""

from __future__ import annotations

import asyncio
import math
import threading
import time
import weakref
from collections.abc import Callable
from typing import Any

from skate._core.places import file_of, own_frame
from skate.engine.local.waiting import inwards

_LOOKS = 5  # at the awaits, in the time after which one is old


class DriverAwaits:
    """The references that event loops of the driver wait for.

    Args:
        patience: After how many seconds an await is explained.
        explain: Is given a reference, the place of its await, and for how long it lasts.
    """

    def __init__(self, patience: float, explain: Callable[[Any, str, float], None]) -> None:
        self._patience = patience
        self._explain = explain
        self._pending: dict[asyncio.Future[Any], tuple[Any, float]] = {}
        self._watched: weakref.WeakSet[asyncio.AbstractEventLoop] = weakref.WeakSet()

    def add(self, future: asyncio.Future[Any], ref: object) -> None:
        """Note that a future waits for a reference; called on its event loop."""
        self._pending[future] = (ref, time.monotonic())
        loop = future.get_loop()
        if loop not in self._watched and not loop.is_closed():
            self._look_later(loop)

    def _look_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watched.add(loop)
        loop.call_later(self._patience / _LOOKS, self._look, loop)

    def discard(self, future: asyncio.Future[Any]) -> None:
        """Note that it is done."""
        self._pending.pop(future, None)

    def entries(self) -> list[Any]:
        """Return the objects that are awaited."""
        return [ref._entry for ref, _ in list(self._pending.values())]

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        self._watched.discard(loop)
        now = time.monotonic()
        there = False
        for future, (ref, since) in list(self._pending.items()):
            if future.get_loop() is not loop:
                continue
            if future.done():  # cancelled: nobody waits any more
                self.discard(future)
                continue
            there = True
            if now - since >= self._patience:
                self._pending[future] = (ref, math.inf)  # once
                place = _place_of(future, loop)
                if place is not None:
                    # Workers are asked for what they know, which the loop shall not wait for.
                    arguments = (ref, place, now - since)
                    threading.Thread(target=self._explain, args=arguments, daemon=True).start()
        if there:
            self._look_later(loop)


def _place_of(future: asyncio.Future[Any], loop: asyncio.AbstractEventLoop) -> str | None:
    """Return where a future is awaited, such as "await (train.py:31)": the innermost line of the
    user's in the task that does; if that has none, as inside of `gather`, in another one."""
    tasks = asyncio.all_tasks(loop)
    waiters = [task for task in tasks if getattr(task, "_fut_waiter", None) is future]
    for task in (*waiters, *tasks):
        frames = [*inwards(task.get_coro())][::-1]
        frame = own_frame(frames)
        if frame is not None:
            return f"await ({file_of(frame)}:{frame.f_lineno})"
    return None
