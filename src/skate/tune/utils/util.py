"""Nested dictionaries: flat and deep, merged and compared."""

from __future__ import annotations

import copy
import time
from collections.abc import Mapping, Sequence
from typing import Any

from skate._run.types import ResultRow


def flatten_dict(
    dt: Mapping[str, object],
    delimiter: str = "/",
    prevent_delimiter: bool = False,
    flatten_list: bool = False,
) -> dict[str, Any]:
    """Turn `{"a": {"b": 1}}` into `{"a/b": 1}`; lists too if `flatten_list`. Empty ones stay.

    `prevent_delimiter` refuses keys that contain the delimiter, so that the way back is unique.
    """
    flat: ResultRow = _new_like(dt)
    for key, value in dt.items():
        if prevent_delimiter and delimiter in str(key):
            raise ValueError(f"the key {key!r} contains the delimiter {delimiter!r}")
        _flatten_into(
            flat,
            str(key),
            value,
            delimiter,
            prevent_delimiter,
            flatten_list,
        )
    return flat


def _flatten_into(
    flat: ResultRow, key: str, value: object, delimiter: str, strict: bool, lists: bool
) -> None:
    if isinstance(value, Mapping) and value:
        inner = flatten_dict(value, delimiter, strict, lists)
    elif lists and isinstance(value, (list, tuple)) and value:
        inner = flatten_dict({str(i): v for i, v in enumerate(value)}, delimiter, strict, lists)
    else:
        flat[key] = value
        return
    for name, leaf in inner.items():
        flat[f"{key}{delimiter}{name}"] = leaf


def unflatten_dict(dt: Mapping[str, object], delimiter: str = "/") -> dict[str, Any]:
    """Undo `flatten_dict` without lists."""
    deep: dict[str, Any] = _new_like(dt)
    for key, value in dt.items():
        place = deep
        *parents, leaf = key.split(delimiter)
        for name in parents:
            place = place.setdefault(name, _new_like(dt))
            if not isinstance(place, dict):
                raise TypeError(
                    f"Cannot unflatten dict: {key!r} is below {name!r}, which has a value itself"
                )
        place[leaf] = value
    return deep


def unflatten_list_dict(dt: Mapping[str, object], delimiter: str = "/") -> Any:
    """Undo `flatten_dict(flatten_list=True)`: keys 0, 1, 2 … become a list."""
    return _numbered_to_lists(unflatten_dict(dt, delimiter))


def _numbered_to_lists(value: object) -> object:
    if not isinstance(value, dict):
        return value
    deep = _new_like(value)
    deep.update((key, _numbered_to_lists(inner)) for key, inner in value.items())
    if deep and list(deep) == [str(i) for i in range(len(deep))]:
        return list(deep.values())
    return deep


def _new_like(mapping: Mapping[str, object]) -> dict[str, object]:
    """Return an empty dictionary of the same type as `mapping`."""
    return type(mapping)() if isinstance(mapping, dict) else {}


def unflattened_lookup(
    flat_key: str, lookup: object, delimiter: str = "/", **kwargs: object
) -> Any:
    """Return `lookup["a"]["b"]` for the key "a/b"; without it, `default`, or raise KeyError."""
    if isinstance(lookup, Mapping) and flat_key in lookup:
        return lookup[flat_key]
    try:
        for name in flat_key.split(delimiter):
            if isinstance(lookup, Mapping):
                lookup = lookup[name]
            elif isinstance(lookup, Sequence) and not isinstance(lookup, str):
                lookup = lookup[int(name)]
            else:
                raise KeyError(flat_key)
    except (KeyError, IndexError, ValueError):
        if "default" in kwargs:
            return kwargs["default"]
        raise KeyError(flat_key) from None
    return lookup


def deep_update(
    original: dict[str, Any],
    new_dict: Mapping[str, object],
    new_keys_allowed: bool = True,
) -> dict[str, Any]:
    """Update in place, sub-dictionaries too; unknown keys are refused unless allowed."""
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise KeyError(f"unknown key {key!r}; there are {sorted(original)}")
        if isinstance(original.get(key), dict) and isinstance(value, Mapping):
            deep_update(original[key], value)
        else:
            original[key] = value
    return original


def merge_dicts(d1: Mapping[str, object], d2: Mapping[str, object]) -> dict[str, Any]:
    """Return a new dictionary: a deep copy of `d1`, updated with `d2`."""
    return deep_update(copy.deepcopy(dict(d1)), d2)


def date_str() -> str:
    """Return the time of now, as in the names of folders."""
    return time.strftime("%Y-%m-%d_%H-%M-%S")
