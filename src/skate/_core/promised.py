"""What `get` takes besides references: answers of libraries, which have values later."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from typing import Any

from skate._core.refs import ObjectRef


class Promised(ABC):
    """An answer of a library; programs of other years give it to `get`."""

    @abstractmethod
    def _promised(self, timeout: float | None) -> Any:
        """Wait for the value, and return it.

        Args:
            timeout: Seconds to wait at the most; None waits for ever.
        """


def has_promised(given: object) -> bool:
    """Return whether it is such an answer, or a list of them, references among them or not."""
    if not isinstance(given, list):
        return isinstance(given, Promised)
    kinds = [isinstance(item, Promised) for item in given]
    return any(kinds) and all(
        kind or type(item) is ObjectRef for kind, item in zip(kinds, given, strict=True)
    )


class Deadline:
    """What is left of the seconds that all have together.

    Args:
        timeout: The seconds; None is for ever.
    """

    def __init__(self, timeout: float | None) -> None:
        self._end = None if timeout is None else time.monotonic() + timeout

    def left(self) -> float | None:
        """Return the seconds that are left, at least 0; None: no end of them."""
        return None if self._end is None else max(0.0, self._end - time.monotonic())
