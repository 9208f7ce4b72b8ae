"""Trying again: which errors are worth it, how often, and after what pause."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import TypeVar

T = TypeVar("T")

Pause = Callable[[float], object]  # sleeps so many seconds; something true: give up instead


class Attempts:
    """How often something has failed, and whether it is worth another attempt."""

    def __init__(
        self,
        patterns: Iterable[str] | None,
        pause: Pause,
        limit: int = 10,
        first_pause_seconds: float = 1.0,
        longest_pause_seconds: float = 32.0,
    ) -> None:
        """Begin to count.

        Args:
            patterns: As of `matches`: only such errors pass by. None stands for all.
            pause: Sleeps between two attempts.
            limit: How many attempts there are at the most.
            first_pause_seconds: How long the first pause is; each is twice as long as the last.
            longest_pause_seconds: How long a pause is at the most.
        """
        self._patterns = None if patterns is None else tuple(patterns)
        self._pause = pause
        self._limit = limit
        self._next_seconds = first_pause_seconds
        self._longest_seconds = longest_pause_seconds
        self._failures = 0

    def again(self, error: BaseException) -> bool:
        """Pause, and return True, if the error passes by and there were few of them so far."""
        self._failures += 1
        if self._failures >= self._limit:
            return False
        if self._patterns is not None and not matches(self._patterns, _text_of(error)):
            return False
        seconds = min(self._next_seconds, self._longest_seconds)
        self._next_seconds = 2 * seconds
        return not self._pause(seconds * random.uniform(0.8, 1.2))  # not all at the same instant


def call(attempt: Callable[[], T], attempts: Attempts) -> T:
    """Return what `attempt` does, calling it again after errors that pass by."""
    while True:
        try:
            return attempt()
        except Exception as error:
            if not attempts.again(error):
                raise


def iterate(begin: Callable[[], Iterable[T]], attempts: Attempts) -> Iterator[T]:
    """Yield the items of `begin()`; after an error that passes by, those of another call that
    were not there before. Each call must give the same ones."""
    given = 0
    while True:
        try:
            for item in islice(begin(), given, None):
                given += 1
                yield item
            return
        except Exception as error:
            if not attempts.again(error):
                raise


def matches(patterns: Iterable[str], message: str) -> bool:
    """Return whether one of the patterns is part of the message, or fits it as a regular
    expression."""
    return any(part in message or _fits(part, message) for part in patterns)


def _fits(pattern: str, message: str) -> bool:
    try:
        return re.search(pattern, message) is not None
    except re.error:
        return False  # it was meant as it stands


def _text_of(error: BaseException) -> str:
    """Return the type and message of an error and of its causes."""
    text = f"{type(error).__name__}: {error}"
    return text if error.__cause__ is None else f"{text}\n{_text_of(error.__cause__)}"
