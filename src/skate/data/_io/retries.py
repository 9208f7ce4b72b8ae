"""Errors of stores that are busy for a moment: what failed by one is tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from skate._core import retries
from skate.data._settings.context import DataContext

_T = TypeVar("_T")
FIRST_PAUSE_SECONDS = 1.0

# Set when nobody wants the result any more: a thread that pauses ends then.
called_off: ContextVar[threading.Event] = ContextVar(
    "skate.data.called_off",
    default=threading.Event(),  # noqa: B039 - it is never set
)


def io_attempts() -> retries.Attempts:
    """Return a count of failures by the errors that `DataContext.retried_io_errors` now has."""
    patterns = DataContext.get_current().retried_io_errors
    return retries.Attempts(patterns, _pause, first_pause_seconds=FIRST_PAUSE_SECONDS)


def _pause(seconds: float) -> bool:
    return called_off.get().wait(seconds)


def with_retries(attempt: Callable[[], _T]) -> _T:
    """Return what `attempt` does, calling it again after errors that pass by."""
    return retries.call(attempt, io_attempts())


def items_with_retries(begin: Callable[[], Iterator[_T]]) -> Iterator[_T]:
    """Yield the items of `begin()`, as `retries.iterate` does."""
    yield from retries.iterate(begin, io_attempts())
