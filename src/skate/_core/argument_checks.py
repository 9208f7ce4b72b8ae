"""Checks of arguments: the one home of those that are not of a single library.

Each returns the value in its final form, or raises an error that names the parameter, what it
takes and what it got: TypeError for a wrong type, ValueError for a wrong value. Functions take the
value at once; those below "checks for tables" make a `Check`, for tables of parameters.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Iterable, Mapping
from numbers import Real
from typing import Any

from skate._core.nearest import nearest_names

Check = Callable[[str, Any], Any]  # (name of the parameter, value) -> the value in its final form

LONGEST_SECONDS = 1e9  # thirty years: far longer is more than a system's clocks can count

_PLAIN = frozenset((int, float))  # the usual case, in loops of wait()
_SECONDS = "None or a number of seconds, 0 or more"


def wrong_type(name: str, value: object, allowed: str) -> TypeError:
    """Return the error for a `value` of the wrong type for the parameter `name`."""
    return TypeError(f"{name} takes {allowed}; got {shown(value)} of type {type(value).__name__}")


def wrong_value(name: str, value: object, allowed: str) -> ValueError:
    """Return the error for a `value` that the parameter `name` does not take."""
    return ValueError(f"{name} takes {allowed}; got {shown(value)}")


def unknown_names(owner: str, names: Iterable[str], known: Iterable[str]) -> TypeError:
    """Return the error for parameters that `owner` does not have, with near misses."""
    known = list(known)
    texts = []
    for name in names:
        near = nearest_names(name, known, 1)
        texts.append(f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
    return TypeError(f"{owner} has no parameter {', '.join(texts)}; it takes {', '.join(known)}")


def shown(value: object) -> str:
    """Return the repr of `value`, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def seconds(name: str, value: Any) -> float | None:
    """Return a time-out: None, or a number of at least 0 that every clock can count."""
    if value is None or (type(value) in _PLAIN and 0 <= value <= LONGEST_SECONDS):
        plain: float | None = value
        return plain
    if not isinstance(value, Real):  # numpy's numbers are
        raise wrong_type(name, value, _SECONDS)
    try:
        number = float(value)
    except OverflowError:
        number = LONGEST_SECONDS if value > 0 else -1.0  # type: ignore[operator]
    if not number >= 0:  # also: not a number
        raise wrong_value(name, value, _SECONDS)
    return min(number, LONGEST_SECONDS)


def whole_number(name: str, value: Any, lowest: int = 1, allowed: str = "") -> int:
    """Return a whole number of at least `lowest`; `allowed` says so in other words."""
    allowed = allowed or f"a whole number of at least {lowest}"
    try:
        number = operator.index(value)
    except TypeError:
        raise wrong_type(name, value, allowed) from None
    if isinstance(value, bool):
        raise wrong_type(name, value, allowed)
    if number < lowest:
        raise wrong_value(name, value, allowed)
    return number


def text(name: str, value: object, allowed: str = "a string") -> str:
    """Return a string that is not empty."""
    if not isinstance(value, str):
        raise wrong_type(name, value, allowed)
    if not value:
        raise wrong_value(name, value, f"{allowed} that is not empty")
    return value


def mapping(name: str, value: object, allowed: str = "a dictionary") -> Mapping[Any, Any]:
    """Return a mapping; None is an empty one."""
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise wrong_type(name, value, allowed)
    return value


# -- checks for tables --------------------------------------------------------------------------


def optional(check: Check) -> Check:
    """Make a check that also takes None."""
    return lambda name, value: None if value is None else check(name, value)


def whole_numbers(lowest: int, allowed: str = "", *, whole_floats: bool = False) -> Check:
    """Make a check for whole numbers of at least `lowest`, also as floats if `whole_floats`."""

    def check(name: str, value: object) -> int:
        if whole_floats and isinstance(value, float) and value.is_integer():
            value = int(value)
        return whole_number(name, value, lowest, allowed)

    return check


def numbers(
    lowest: float,
    allowed: str,
    *,
    above: bool = False,
    highest: float = math.inf,
    finite: bool = True,
) -> Check:
    """Make a check for numbers from `lowest`, or `above` it, to `highest`."""

    def check(name: str, value: object) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise wrong_type(name, value, allowed)
        high_enough = value > lowest if above else value >= lowest  # which NaN never is
        if not high_enough or value > highest or (finite and math.isinf(value)):
            raise wrong_value(name, value, allowed)
        return float(value)

    return check


def instances(kinds: type | tuple[type, ...], allowed: str) -> Check:
    """Make a check for instances of some classes."""

    def check(name: str, value: object) -> Any:
        if not isinstance(value, kinds):
            raise wrong_type(name, value, allowed)
        return value

    return check


def one_of(*values: object) -> Check:
    """Make a check for a few values."""
    allowed = " or ".join(map(repr, values))

    def check(name: str, value: object) -> Any:
        if value not in values:
            raise wrong_value(name, value, allowed)
        return value

    return check
