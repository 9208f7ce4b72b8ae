"""Searchers that are not offered: as in Ray without their package, importing one is no error."""

from __future__ import annotations

from skate._core.former_names import SEARCHERS
from skate.compat.parts.inside import Absent


def __getattr__(name: str) -> Absent:
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return Absent(name, f"skate does not have {name}: {SEARCHERS}")
