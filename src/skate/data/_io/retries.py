"""Errors of stores that are busy for a moment: what failed by one is tried again, after pauses
that grow."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import TypeVar

from skate.data._execution.udf_retries import matches
from skate.data._settings.context import DataContext

_T = TypeVar("_T")
ATTEMPTS = 10
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 32.0

# Set when nobody wants the result any more: a thread that pauses ends then.
called_off: ContextVar[threading.Event] = ContextVar(
    "skate.data.called_off",
    default=threading.Event(),  # noqa: B039 - it is never set
)


class IORetries:
    """How often something has failed, and whether it is worth another attempt.

    The errors are those of `DataContext.retried_io_errors` when the work begins.
    """

    def __init__(self) -> None:
        self._patterns = tuple(DataContext.get_current().retried_io_errors)
        self._failures = 0

    def again(self, error: Exception) -> bool:
        """Pause, and return True, if the error passes by and there were few of them so far."""
        self._failures += 1
        if self._failures >= ATTEMPTS or not matches(self._patterns, _text_of(error)):
            return False
        pause = min(FIRST_PAUSE_SECONDS * 2 ** (self._failures - 1), LONGEST_PAUSE_SECONDS)
        pause *= random.uniform(0.8, 1.2)  # not all at the same instant
        return not called_off.get().wait(pause)


def with_retries(attempt: Callable[[], _T]) -> _T:
    """Return what `attempt` does, calling it again after errors that pass by."""
    retries = IORetries()
    while True:
        try:
            return attempt()
        except Exception as error:
            if not retries.again(error):
                raise


def items_with_retries(begin: Callable[[], Iterator[_T]]) -> Iterator[_T]:
    """Yield the items of `begin()`; after an error that passes by, those of another call that
    were not there before. Each call must give the same ones."""
    retries = IORetries()
    given = 0
    while True:
        try:
            for number, item in enumerate(begin()):
                if number >= given:
                    given += 1
                    yield item
            return
        except Exception as error:
            if not retries.again(error):
                raise


def _text_of(error: BaseException) -> str:
    """Return the type and message of an error and of its causes."""
    text = f"{type(error).__name__}: {error}"
    return text if error.__cause__ is None else f"{text}\n{_text_of(error.__cause__)}"
