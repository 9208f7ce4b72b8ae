"""Checks of arguments, shared by the façade and `util`.

Each returns the value in its final form, or raises TypeError or ValueError that names the
parameter, what it takes and what it got.
"""

from __future__ import annotations

import operator
from collections.abc import Mapping
from numbers import Real
from typing import Any

LONGEST_SECONDS = 1e9  # thirty years: far longer is more than a system's clocks can count

_PLAIN = frozenset((int, float))  # the usual case, in loops of wait()
_SECONDS = "None or a number of seconds, 0 or more"


def wrong_type(name: str, value: Any, allowed: str) -> TypeError:
    """Return the error for a `value` of the wrong type for the parameter `name`."""
    return TypeError(f"{name} takes {allowed}; got {shown(value)} of type {type(value).__name__}")


def wrong_value(name: str, value: Any, allowed: str) -> ValueError:
    """Return the error for a `value` that the parameter `name` does not take."""
    return ValueError(f"{name} takes {allowed}; got {shown(value)}")


def shown(value: Any) -> str:
    """Return the repr of `value`, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def seconds(name: str, value: Any) -> float | None:
    """Return a time-out: None, or a number of at least 0 that every clock can count."""
    if value is None or (type(value) in _PLAIN and 0 <= value <= LONGEST_SECONDS):
        return value  # type: ignore[no-any-return]
    if not isinstance(value, Real):  # numpy's numbers are
        raise wrong_type(name, value, _SECONDS)
    try:
        number = float(value)
    except OverflowError:
        number = LONGEST_SECONDS if value > 0 else -1.0  # type: ignore[operator]
    if not number >= 0:  # also: not a number
        raise wrong_value(name, value, _SECONDS)
    return min(number, LONGEST_SECONDS)


def whole_number(name: str, value: Any, lowest: int = 1) -> int:
    """Return a whole number of at least `lowest`."""
    allowed = f"a whole number of at least {lowest}"
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong_type(name, value, allowed) from None
    if isinstance(value, bool):
        raise wrong_type(name, value, allowed)
    if number < lowest:
        raise wrong_value(name, value, allowed)
    return number


def text(name: str, value: Any, allowed: str = "a string") -> str:
    """Return a string that is not empty."""
    if not isinstance(value, str):
        raise wrong_type(name, value, allowed)
    if not value:
        raise wrong_value(name, value, f"{allowed} that is not empty")
    return value


def mapping(name: str, value: Any, allowed: str = "a dictionary") -> Mapping[Any, Any]:
    """Return a mapping; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong_type(name, value, allowed)
    return value
