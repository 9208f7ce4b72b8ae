"""Lines of a run where nobody sees a live view: now and then, and two at its end."""

from __future__ import annotations

import os
import time

from skate._core import notices


class ProgressLines:
    """Says how far a run is, every `SKATE_PROGRESS_EVERY` seconds (30; 0: never).

    Args:
        name: The run's.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._every = seconds_between_lines()
        self._next = time.monotonic() + self._every

    def due(self) -> bool:
        """Return whether it is time for a line, once for each."""
        now = time.monotonic()
        if not self._every or now < self._next:
            return False
        self._next = now + self._every
        return True

    def say(self, text: str) -> None:
        notices.say(f"{self._name}: {text}")


def seconds_between_lines() -> float:
    """Return how often a run without a live view says how far it is."""
    text = os.environ.get("SKATE_PROGRESS_EVERY", "30")
    try:
        seconds = float(text)
    except ValueError:
        raise ValueError(
            f"SKATE_PROGRESS_EVERY takes a number of seconds, 0 for never; got {text!r}"
        ) from None
    return max(0.0, seconds)


def short_number(value: object) -> str:
    """Return a value for people: numbers with three digits that count."""
    if not isinstance(value, float):
        return str(value)
    text = f"{value:.3g}"
    return text.replace("e-0", "e-").replace("e+0", "e+").replace("e+", "e")


def seconds_in_words(seconds: float) -> str:
    """Return a duration such as "45 s", "3 min 20 s" or "2 h 5 min"."""
    whole = round(seconds)
    if whole < 100:
        return f"{whole} s"
    minutes, rest = divmod(whole, 60)
    if minutes < 100:
        return f"{minutes} min {rest} s" if rest else f"{minutes} min"
    return f"{minutes // 60} h {minutes % 60} min"


def first_line(error: BaseException) -> str:
    """Return an error in one line: its type, and the beginning of what it says."""
    cause = getattr(error, "cause", None)
    error = cause if isinstance(cause, BaseException) else error
    said = str(error).strip().splitlines()
    text = said[0] if said else ""
    text = text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


_LONGEST = 200
