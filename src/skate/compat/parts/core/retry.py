"""`ray._common.retry`: calls that are made again, as sources and sinks of others make them."""

from __future__ import annotations

import functools
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TypeVar

from skate._core import retries

R = TypeVar("R")

_logger = logging.getLogger("skate")


def call_with_retry(
    f: Callable[..., R],
    description: str,
    match: Sequence[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: int = 32,
    *args: object,
    **kwargs: object,
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
    attempts = _attempts(description, match, max_attempts, max_backoff_s)
    return retries.call(functools.partial(f, *args, **kwargs), attempts)


def retry(
    description: str,
    match: Sequence[str] | None = None,
    max_attempts: int = 10,
    max_backoff_s: int = 32,
) -> Callable[[Callable[..., R]], Callable[..., R]]:
    """Decorate a function so that each call is a `call_with_retry`, with the same parameters."""

    def decorate(function: Callable[..., R]) -> Callable[..., R]:
        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> R:
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
    attempts = _attempts(description, match, max_attempts, max_backoff_s)
    return retries.iterate(iterable_factory, attempts)


def _attempts(
    description: str, match: Sequence[str] | None, limit: int, longest_seconds: float
) -> retries.Attempts:
    if limit < 1:
        raise ValueError(f"max_attempts must be at least 1; got {limit}")

    def pause(seconds: float) -> None:
        _logger.debug("another attempt to %s: in %.1f s", description, seconds)
        time.sleep(seconds)

    return retries.Attempts(match, pause, limit, longest_pause_seconds=longest_seconds)
