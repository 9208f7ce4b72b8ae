"""A search space that is given again when an experiment is taken up.

What JSON cannot bring back, as a dataset, a reference or an object of one's own, may be of a
session that is gone. The trials get the new space's in its place: the value at the same key, or
the choice with the same number. Numbers and texts stay what they were.
"""

from __future__ import annotations

from typing import Any

import cloudpickle

from skate._run.values import is_plain
from skate.tune.search.sample import Categorical, Domain
from skate.tune.utils.util import flatten_dict


def check_same_keys(old: dict[str, object], new: dict[str, object]) -> None:
    """Refuse a space with other parameters than those with which the search began."""
    before, now = sorted(flatten_dict(old)), sorted(flatten_dict(new))
    if before != now:
        raise ValueError(
            f"Tuner.restore goes on with the parameters of the search, {before}; param_space has "
            f"{now}. Give it to have objects that are gone replaced, not to search elsewhere"
        )


def has_objects(space: object) -> bool:
    """Return whether a space has objects that may be of this session only."""
    choices = _choices(space)
    if choices is not None:
        return not all(map(is_plain, choices))
    if isinstance(space, dict):
        return any(map(has_objects, space.values()))
    return not isinstance(space, Domain) and not is_plain(space)


def renewed(value: object, old: object, new: object) -> Any:
    """Return a trial's value, or its whole configuration, with the objects of the new space."""
    choices = _choices(new)
    if choices is not None:
        return _chosen_again(value, _choices(old) or [], choices)
    if isinstance(new, Domain) or is_plain(new):
        return value
    if isinstance(new, dict) and isinstance(value, dict) and isinstance(old, dict):
        return {
            key: renewed(inner, old.get(key), new[key]) if key in new else inner
            for key, inner in value.items()
        }
    return new


def _choices(space: object) -> list[object] | None:
    if isinstance(space, Categorical):
        return space.categories
    if isinstance(space, dict) and set(space) == {"grid_search"}:
        return list(space["grid_search"])
    return None


def _chosen_again(value: object, before: list[object], now: list[object]) -> object:
    if is_plain(value):
        return value
    pairs = zip(before, now, strict=False)
    return next((new for old, new in pairs if _same(old, value)), value)


def _same(one: object, other: object) -> bool:
    """Return whether two objects are one or pickle alike; copies are seldom equal."""
    try:
        return one is other or bool(cloudpickle.dumps(one) == cloudpickle.dumps(other))
    except Exception:  # something that cannot be pickled is nobody's copy
        return False
