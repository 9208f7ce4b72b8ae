"""What iterators of `skate.util.iter` count."""

from __future__ import annotations

from collections import defaultdict
from typing import Any


class MetricsContext:
    """Counts and notes of one iterator, and of those that it unites.

    Attributes:
        counters: Numbers by name, 0 at first.
        timers: Anything that measures, by name; made by the program.
        info: Other values, by name.
        current_actor: The actor that the item under way comes from, if it is known.
    """

    def __init__(self) -> None:
        self.counters: defaultdict[str, int] = defaultdict(int)
        self.timers: dict[str, Any] = {}
        self.info: dict[str, Any] = {}
        self.current_actor: Any = None


class SharedMetrics:
    """Holds the metrics of an iterator; united iterators share those of their union."""

    def __init__(self) -> None:
        self._own = MetricsContext()
        self._union: SharedMetrics | None = None

    def get(self) -> MetricsContext:
        """Return the metrics, which are those of the outermost union."""
        return self._own if self._union is None else self._union.get()

    def join(self, union: SharedMetrics) -> None:
        """Share the metrics of a union from now on."""
        if self._union is None:
            self._union = union
        else:
            self._union.join(union)
