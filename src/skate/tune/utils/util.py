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
    """Return a dictionary without dictionaries in it; empty ones stay.

    Args:
        dt: The dictionary.
        delimiter: What joins keys.
        prevent_delimiter: Whether keys that contain the delimiter are refused, so that there is
            one way back.
        flatten_list: Whether lists are flattened too, with positions as keys.

    Raises:
        ValueError: If a key contains the delimiter, and that is to be refused.

    Example:
        >>> from skate.tune.utils import flatten_dict
        >>> flatten_dict({"a": {"b": 1}})
        {'a/b': 1}
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
    """Return the dictionary that `flatten_dict` was given, if it had no lists flattened.

    Args:
        dt: What it has returned.
        delimiter: What joins keys.

    Raises:
        TypeError: If a key has a value, and others below it.
    """
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
    """Return what `flatten_dict(flatten_list=True)` was given: keys 0, 1, 2 … become a list.

    Args:
        dt: What it has returned.
        delimiter: What joins keys.
    """
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
    """Return the value that a flat key names in a deep dictionary.

    Args:
        flat_key: The key: "a/b" stands for `lookup["a"]["b"]`.
        lookup: The dictionary.
        delimiter: What joins keys.
        kwargs: With `default`, what is returned where the key is not there.

    Raises:
        KeyError: If the key is not there, and there is no `default`.
    """
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
    """Update a dictionary in place, and those in it too.

    Args:
        original: The dictionary.
        new_dict: What it gets.
        new_keys_allowed: Whether it may get keys that it did not have.

    Returns:
        The dictionary.

    Raises:
        KeyError: If a key is new and must not be.
    """
    for key, value in new_dict.items():
        if key not in original and not new_keys_allowed:
            raise KeyError(f"unknown key {key!r}; there are {sorted(original)}")
        if isinstance(original.get(key), dict) and isinstance(value, Mapping):
            deep_update(original[key], value)
        else:
            original[key] = value
    return original


def merge_dicts(d1: Mapping[str, object], d2: Mapping[str, object]) -> dict[str, Any]:
    """Return a new dictionary: a deep copy of `d1`, updated with `d2`.

    Args:
        d1: The dictionary that is copied.
        d2: The one that goes before it.
    """
    return deep_update(copy.deepcopy(dict(d1)), d2)


def date_str() -> str:
    """Return the time of now, as in the names of folders."""
    return time.strftime("%Y-%m-%d_%H-%M-%S")
