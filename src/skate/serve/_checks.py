"""Checks of what users write; each error names the parameter, what it takes and what it got."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from skate._core.nearest import nearest_names

Check = Callable[[str, Any], Any]


def refuse(name: str, allowed: str, value: object) -> ValueError:
    return ValueError(f"{name} takes {allowed}; got {value!r}")


def integer(low: int, allowed: str) -> Check:
    """At least `low`, and no bool; whole floats are taken as what they are."""

    def check(name: str, value: Any) -> int:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole or value < low:
            raise refuse(name, allowed, value)
        return int(value)

    return check


def number(low: float, allowed: str, *, above: bool = False, most: float = math.inf) -> Check:
    """A finite number of at least `low` (or above it), at most `most`."""

    def check(name: str, value: Any) -> float:
        if isinstance(value, bool) or not isinstance(value, (int, float)):
            raise refuse(name, allowed, value)
        if not math.isfinite(value) or value < low or value > most or (above and value == low):
            raise refuse(name, allowed, value)
        return float(value)

    return check


def optional(check: Check) -> Check:
    return lambda name, value: None if value is None else check(name, value)


def mapping(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise refuse(name, "a dictionary", value)
    return dict(value)


def anything(name: str, value: Any) -> Any:
    return value


def refuse_event_loop(instead: str) -> None:
    """Raise a RuntimeError inside of async code, which should do this `instead`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "methods that block should not be called from within an `asyncio` event loop, which "
        f"they would stop: use {instead}"
    )


def unknown(what: str, names: Iterable[str], known: Iterable[str]) -> TypeError:
    """The error for parameters that do not exist, with near misses."""
    known = list(known)
    texts = []
    for name in names:
        near = nearest_names(name, known, 1)
        texts.append(f"{name!r}" + (f" (did you mean {near[0]!r}?)" if near else ""))
    return TypeError(f"{what} has no parameter {', '.join(texts)}; it takes {', '.join(known)}")


positive_integer = integer(1, "a whole number of at least 1")
non_negative_integer = integer(0, "a whole number of at least 0")
non_negative = number(0, "a number of at least 0")
positive = number(0, "a number above 0", above=True)
