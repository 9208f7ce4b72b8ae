"""What the libraries of this process have under way, for those who look in from outside.

A library announces an object that it works with, and how to describe it; nothing is computed
until somebody asks, and nothing is kept longer than the object.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Row = dict[str, Any]
Owner = TypeVar("Owner")

_announced: dict[str, dict[int, tuple[weakref.ref[Any], Callable[[Any], Iterable[Row]]]]] = {}
_lock = threading.RLock()  # a destructor may want it while this thread has it


def announce(kind: str, owner: Owner, describe: Callable[[Owner], Iterable[Row]]) -> None:
    """Let others ask about an object, for as long as it lives.

    Args:
        kind: What it is one of: "datasets", "trials", "deployments".
        owner: The object.
        describe: Makes rows of it, from any thread and at any time.
    """
    key = id(owner)

    def forget(gone: weakref.ref[object]) -> None:
        with _lock:
            known = _announced[kind].get(key)
            if known is not None and known[0] is gone:
                del _announced[kind][key]

    with _lock:
        _announced.setdefault(kind, {})[key] = (weakref.ref(owner, forget), describe)


def live_rows(kind: str) -> list[Row]:
    """Return the rows of all objects of a kind, in the order in which they were announced."""
    with _lock:
        found = [(ref(), describe) for ref, describe in _announced.get(kind, {}).values()]
    return [row for owner, describe in found if owner is not None for row in describe(owner)]
