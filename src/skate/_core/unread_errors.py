"""Errors of tasks and calls that nobody will ever read: their references are gone.

They are shown on standard error, with their tracebacks: the first of each kind, and a few kinds
of a session; the rest is counted, and told at its end. `SKATE_IGNORE_UNHANDLED_ERRORS=1` (or the
same of Ray's) turns it off. What the libraries run for themselves is theirs to read.
"""

from __future__ import annotations

import os

from skate._core import notices
from skate.exceptions import ActorDiedError, TaskError

_MOST_SHOWN = 5
_SWITCHES = ("SKATE_IGNORE_UNHANDLED_ERRORS", "RAY_IGNORE_UNHANDLED_ERRORS")


class Failure:
    """What is shown of an error. It keeps nothing else alive."""

    __slots__ = ("name", "read", "text", "type")

    def __init__(self, error: TaskError) -> None:
        self.name: str = error.function_name
        self.type: str = type(error.cause).__name__
        self.text: str = str(error)
        self.read: bool = False  # nobody need be shown it


def failure_of(error: BaseException) -> Failure | None:
    """Return what to show of an error of user code; None if it is none."""
    raised = error.cause if isinstance(error, ActorDiedError) else error
    if not isinstance(raised, TaskError) or raised.by_library:
        return None
    # Not an interrupt, nor an exit.
    return Failure(raised) if isinstance(raised.cause, Exception) else None


class UnreadErrors:
    """Those of a session."""

    def __init__(self) -> None:
        self._shown: set[tuple[str, str]] = set()  # function, and type of the error
        self._more = 0

    def add(self, failure: Failure) -> None:
        """Show an error that nobody has read."""
        if not is_on():
            return
        kind = (failure.name, failure.type)
        if kind in self._shown or len(self._shown) >= _MOST_SHOWN:
            self._more += 1
            return
        self._shown.add(kind)
        notices.warn(
            f"{failure.name}() has failed, and nobody has read its result:\n{failure.text}"
        )

    def close(self) -> None:
        """Tell how many were not shown."""
        if self._more:
            what = "error was" if self._more == 1 else "errors were"
            notices.warn(f"{self._more} more {what} not read; get() the references to see them")
            self._more = 0


def is_on() -> bool:
    """Return whether errors that nobody reads are shown."""
    return all(os.environ.get(name, "0") in ("", "0") for name in _SWITCHES)
