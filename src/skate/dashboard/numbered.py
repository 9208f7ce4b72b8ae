"""What happened, numbered, so that whoever has seen some of it is given the rest."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from itertools import islice
from typing import Any


class Numbered:
    """Keeps the last things of many.

    Args:
        most: How many.
    """

    def __init__(self, most: int) -> None:
        self.total: int = 0
        self._kept: deque[Any] = deque(maxlen=most)

    def extend(self, items: Iterable[object]) -> None:
        """Add things."""
        for item in items:
            self._kept.append(item)
            self.total += 1

    def since(self, seen: int) -> dict[str, Any]:
        """Return those after the first `seen`, if they are kept, and how many there were."""
        new = min(max(0, self.total - seen), len(self._kept))
        rows = [*islice(reversed(self._kept), new)][::-1]
        return {"rows": rows, "total": self.total}
