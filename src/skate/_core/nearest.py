"""What the user may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_names(name: str, allowed: Iterable[str], count: int = 3) -> list[str]:
    """The allowed names that look most like `name`."""
    import difflib

    return difflib.get_close_matches(name, list(allowed), n=count)


def unknown_parameter(function: str, name: str, known: Iterable[str]) -> TypeError:
    """The error of a function that was given something which it does not have."""
    near = nearest_names(name, known)
    hint = f"; did you mean {' or '.join(near)}?" if near else ""
    return TypeError(f"{function}() has no parameter {name!r}{hint}")
