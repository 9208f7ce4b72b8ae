"""Reported values as files and people see them."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from skate._run.types import MetricsLike

MOST_ELEMENTS = 1000  # of an array in a configuration, to be written with each result

LEAVES = (int, float, str, bool, type(None))  # the question is asked for every metric


def plain(value: object) -> Any:
    """Return NumPy and torch scalars as Python numbers, arrays as lists; else the value itself."""
    if type(value) in LEAVES or isinstance(value, LEAVES):
        return value
    item = getattr(value, "item", None)
    if callable(item) and getattr(value, "ndim", None) == 0:
        return item()
    tolist = getattr(value, "tolist", None)
    return tolist() if callable(tolist) else value


def is_plain(value: object) -> bool:
    """Return whether JSON brings the value back exactly."""
    if type(value) is dict:
        for key, inner in value.items():
            if type(key) is not str or not (type(inner) in LEAVES or is_plain(inner)):
                return False
        return True
    if type(value) is list:
        return all(map(is_plain, value))
    return type(value) in LEAVES


def numbers_as_such(metrics: MetricsLike) -> dict[str, Any]:
    """Return metrics whose scalars are Python numbers: a tensor would keep alive all it was
    computed from."""
    return {
        name: numbers_as_such(value)
        if isinstance(value, Mapping)
        else plain(value)
        if getattr(value, "ndim", None) == 0
        else value
        for name, value in metrics.items()
    }


def shortened(value: object) -> Any:
    """Return a configuration as results show it: large arrays and lists are only described."""
    if isinstance(value, Mapping):
        return {key: shortened(inner) for key, inner in value.items()}
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and math.prod(shape) > MOST_ELEMENTS:
        return f"<{type(value).__name__} of shape {tuple(shape)}>"
    if isinstance(value, (list, tuple)) and len(value) > MOST_ELEMENTS:
        return f"<{type(value).__name__} of {len(value)} elements>"
    return value


def _fallback(value: object) -> Any:
    simple = plain(value)
    if simple is not value:
        return simple
    if isinstance(value, Mapping):
        return dict(value)
    return sorted(value, key=str) if isinstance(value, (set, frozenset)) else repr(value)


_encode = json.JSONEncoder(default=_fallback).encode


def to_json(record: Mapping[str, object], **options: Any) -> str:
    """Write JSON for anything: what JSON does not know is written as its repr."""
    try:
        if not options:
            return _encode(record)
        return json.dumps(record, default=_fallback, **options)
    except TypeError:  # keys that are no strings
        return json.dumps(_with_text_keys(record), default=_fallback, **options)


def as_lines(records: Iterable[Mapping[str, object]]) -> bytes:
    """Write a line of JSON for each record."""
    return "".join([f"{to_json(record)}\n" for record in records]).encode()


def indented(record: Mapping[str, object]) -> str:
    """Write JSON as `to_json`, for people: sorted, and a line for each value."""
    if not record or any(type(value) not in LEAVES for value in record.values()):
        return to_json(record, indent=2, sort_keys=True)
    # the encoder that knows how to indent is not the fast one
    line = to_json(record, sort_keys=True, separators=(",\n  ", ": "))
    return f"{{\n  {line[1:-1]}\n}}"


def _with_text_keys(value: object) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _with_text_keys(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_with_text_keys(inner) for inner in value]
    return value


def flatten(record: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield values with nested names joined by slashes: `{"a": {"b": 1}}` gives `("a/b", 1)`."""
    for key, value in record.items():
        if type(value) not in LEAVES and isinstance(value, Mapping) and value:
            yield from flatten(value, f"{prefix}{key}/")
        else:
            yield f"{prefix}{key}", value


def numbers_in(record: MetricsLike, prefix: str = "") -> list[tuple[str, float]]:
    """List the numbers of a record, nested names joined by slashes."""
    numbers = []
    for name, value in record.items():
        kind = type(value)
        if kind is float:
            numbers.append((f"{prefix}{name}", value))
        elif kind is str:
            continue
        elif kind is not int and isinstance(value, Mapping):
            numbers += numbers_in(value, f"{prefix}{name}/")
        else:
            number = plain(value)
            if isinstance(number, (int, float)):
                numbers.append((f"{prefix}{name}", float(number)))
    return numbers


def lookup(record: Mapping[str, object], name: str, default: object = None) -> Any:
    """Return a value by its name, of which `a/b` may mean nested dicts."""
    if name in record:
        return record[name]
    value: Any = record
    for part in name.split("/"):
        if not isinstance(value, Mapping) or part not in value:
            return default
        value = value[part]
    return value


def reached(criteria: Mapping[str, object], result: MetricsLike) -> bool:
    """Return whether one of the metrics has come to its value."""
    for name, limit in criteria.items():
        value = lookup(result, name)
        if value is not None and value >= limit:
            return True
    return False
