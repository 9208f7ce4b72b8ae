"""`ray._common.retry`: calls that are made again, as sources and sinks of others make them."""

from __future__ import annotations

import functools
import logging
import random
import re
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any, TypeVar

R = TypeVar("R")

_logger = logging.getLogger("skate")


def call_with_retry(
    f: Callable[..., R],
    description: str,
    match: Sequence[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: int = 32,
    *args: Any,
    **kwargs: Any,
) -> R:
    """Call `f(*args, **kwargs)` until it does not raise.

    Args:
        f: What is called.
        description: What it does, as in "open the file", for the log.
        match: Parts of messages, or regular expressions: only such errors are worth another call.
            None stands for all.
        max_attempts: How often it is called at the most; the last error is raised.
        max_backoff_s: Seconds to wait between two calls at the most; the first time it is one, and
            then twice as long each time.
    """
    attempts = _Attempts(description, match, max_attempts, max_backoff_s)
    while True:
        try:
            return f(*args, **kwargs)
        except Exception as error:
            if not attempts.again(error):
                raise
        attempts.wait()


def retry(
    description: str,
    match: Sequence[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: int = 32,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function so that each call is a `call_with_retry`, with the same parameters."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> R:
            return call_with_retry(
                function, description, match, max_attempts, max_backoff_s, *args, **kwargs
            )

        return call

    return decorate


def iterate_with_retry(
    iterable_factory: Callable[[], Iterable[R]],
    description: str,
    *,
    match: Sequence[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: int = 32,
) -> Iterator[R]:
    """Yield the items of `iterable_factory()`; after an error from a new one, past those that were
    yielded. The other parameters are those of `call_with_retry`."""
    attempts = _Attempts(description, match, max_attempts, max_backoff_s)
    yielded = 0
    while True:
        try:
            for item in islice(iterable_factory(), yielded, None):
                yielded += 1
                yield item
            return
        except Exception as error:
            if not attempts.again(error):
                raise
        attempts.wait()


class _Attempts:
    """How often something was tried, and what of it is worth another try."""

    def __init__(
        self, description: str, match: Sequence[str] | None, limit: int, longest: float
    ) -> None:
        if limit < 1:
            raise ValueError(f"max_attempts must be at least 1; got {limit}")
        self._description, self._match = description, match
        self._limit, self._longest = limit, longest
        self._made = 0

    def again(self, error: Exception) -> bool:
        self._made += 1
        return self._made < self._limit and self._matches(f"{type(error).__name__}: {error}")

    def _matches(self, message: str) -> bool:
        if self._match is None:
            return True
        return any(part in message or _finds(part, message) for part in self._match)

    def wait(self) -> None:
        seconds = min(2 ** (self._made - 1), self._longest) * random.uniform(0.8, 1.2)
        _logger.debug("attempt %d to %s: in %.1f s", self._made + 1, self._description, seconds)
        time.sleep(seconds)


def _finds(pattern: str, message: str) -> bool:
    try:
        return re.search(pattern, message) is not None
    except re.error:
        return False  # it was meant as it stands
