"""Errors that nobody has read, as they come: packed, when nothing may be unpickled."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from skate._core import serialization
from skate._core.unread_errors import UnreadErrors, failure_of, is_on

if TYPE_CHECKING:
    from skate._core.serialization import Packed


class PackedUnreadErrors:
    """Collects them; they are shown after the turn of the reactor, when no lock is held."""

    def __init__(self, after_turn: deque[Callable[[], None]]) -> None:
        self._after_turn = after_turn
        self._packed: deque[Packed] = deque()
        self._errors = UnreadErrors()
        self.told: set[int] = set()  # work whose error somebody has been told, in another's place

    def add(self, error: Packed) -> None:
        if is_on():
            self._packed.append(error)
            self._after_turn.append(self.show)

    def show(self) -> None:
        """Show what has come. Without the engine's lock: errors run code of the user's."""
        while self._packed:
            try:
                failure = failure_of(serialization.loads(self._packed.popleft()))
            except Exception:  # its class cannot be had here; or another thread was faster
                continue
            if failure is not None:
                self._errors.add(failure)

    def close(self) -> None:
        """Show the rest, at the end of the session."""
        self.show()
        self._errors.close()
