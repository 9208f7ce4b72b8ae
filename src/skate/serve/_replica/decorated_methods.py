"""Decorated functions that are methods: whose call it is."""

from __future__ import annotations

from collections.abc import Callable, Sequence


def owner_of(function: Callable[..., object], args: Sequence[object]) -> object:
    """Return the instance on which the decorated `function` was called as a method, if on one."""
    found = getattr(type(args[0]), function.__name__, None) if args else None
    return args[0] if getattr(found, "__wrapped__", None) is function else None
