"""The mapping that a worker has read last, for the next call that has the same argument."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.engine.local.mapping import Mapping

_KEPT_SECONDS = 0.05


class RecentMapping:
    """Keeps one mapping only, and not for long, so that its memory can be used for the next
    value."""

    def __init__(self, call_later: Callable[[float, Callable[[], None]], None]) -> None:
        self._call_later = call_later
        self._mapping: Mapping | None = None
        self._until = 0.0
        self._will_drop = False

    def keep(self, mapping: Mapping | None) -> None:
        """Keep a mapping for a moment, in the place of the one before."""
        self._mapping = mapping
        self._until = time.monotonic() + _KEPT_SECONDS
        if not self._will_drop:
            self._will_drop = True
            self._call_later(_KEPT_SECONDS, self._drop)

    def _drop(self) -> None:
        left = self._until - time.monotonic()
        if left > 0:
            self._call_later(left, self._drop)
        else:
            self._will_drop = False
            self._mapping = None
