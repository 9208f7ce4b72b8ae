"""What the user may have meant."""

from __future__ import annotations

from collections.abc import Iterable


def nearest_names(name: str, allowed: Iterable[str], count: int = 3) -> list[str]:
    """The allowed names that look most like `name`."""
    import difflib

    return difflib.get_close_matches(name, list(allowed), n=count)
