"""Which of a library's metrics are reported, and under which names."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate._run.values import plain


def selected(found: Mapping[str, object], wanted: Any) -> dict[str, object]:
    """Pick all values, those of a list, or those of a dictionary from new names to old."""
    if not wanted:
        return {name: plain(value) for name, value in found.items()}
    if isinstance(wanted, str):
        wanted = [wanted]
    names = wanted if isinstance(wanted, Mapping) else {name: name for name in wanted}
    return {new: plain(found[old]) for new, old in names.items() if old in found}
