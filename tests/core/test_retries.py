"""Trying again: which errors are worth it, how often, after what pauses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from skate._core import retries


def failing(times: int, error: Exception) -> Callable[[], str]:
    left = [error] * times

    def attempt() -> str:
        if left:
            raise left.pop()
        return "done"

    return attempt


def test_pauses_grow_up_to_the_longest() -> None:
    pauses: list[float] = []
    attempts = retries.Attempts(
        None, pauses.append, limit=6, first_pause_seconds=1, longest_pause_seconds=4
    )
    assert retries.call(failing(5, OSError("busy")), attempts) == "done"
    for pause, wanted in zip(pauses, [1, 2, 4, 4, 4], strict=True):
        assert 0.8 * wanted <= pause <= 1.2 * wanted


def test_the_last_attempt_raises() -> None:
    with pytest.raises(OSError, match="busy"):
        retries.call(failing(3, OSError("busy")), retries.Attempts(None, lambda _: None, limit=3))


@pytest.mark.parametrize(
    ("pattern", "passes"), [("SLOW_DOWN", True), ("SLOW.*N", True), ("(busy", False)]
)
def test_only_what_matches_passes_by(pattern: str, passes: bool) -> None:
    error = OSError("the store is SLOW_DOWN")
    attempts = retries.Attempts([pattern], lambda _: None)
    if passes:
        assert retries.call(failing(2, error), attempts) == "done"
    else:
        with pytest.raises(OSError, match="the store"):
            retries.call(failing(2, error), attempts)


def test_the_cause_of_an_error_counts() -> None:
    error = ValueError("unreadable")
    error.__cause__ = OSError("SLOW_DOWN")
    attempts = retries.Attempts(["OSError: SLOW_DOWN"], lambda _: None)
    assert retries.call(failing(1, error), attempts) == "done"


def test_a_pause_that_is_called_off_ends_it() -> None:
    with pytest.raises(OSError, match="busy"):
        retries.call(failing(1, OSError("busy")), retries.Attempts(None, lambda _: True))


def test_items_come_once() -> None:
    breaks: list[Any] = [1, 3]

    def begin() -> Iterator[int]:
        for number in range(5):
            if number in breaks:
                breaks.remove(number)
                raise OSError("busy")
            yield number

    attempts = retries.Attempts(None, lambda _: None)
    assert list(retries.iterate(begin, attempts)) == [0, 1, 2, 3, 4]
