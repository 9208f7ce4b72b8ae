"""`ray.air._internal.config`: configurations of which some fields keep their defaults."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def ensure_only_allowed_dataclass_keys_updated(
    dataclass: Any, allowed_keys: Iterable[str]
) -> None:
    """Check that only these fields of a configuration differ from its defaults."""
    kind = type(dataclass)
    usual, allowed = vars(kind()), set(allowed_keys)
    if unknown := sorted(allowed.difference(usual)):
        raise ValueError(f"{unknown} are not present in {kind.__name__}: it has {sorted(usual)}")
    kept = usual.keys() - allowed
    if changed := sorted(name for name in kept if vars(dataclass)[name] != usual[name]):
        raise ValueError(
            f"{changed} of {kind.__name__} are not to be updated here: leave them out"
        )
