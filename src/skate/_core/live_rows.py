"""What the libraries of this process have under way, for those who look in from outside.

A library announces an object that it works with, and how to describe it; nothing is computed
until somebody asks, and nothing is kept longer than the object, except for what it says remains.
"""

from __future__ import annotations

import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

Row = dict[str, Any]

MEASUREMENTS = "measurements"  # the kind of what is collected, but not under way

_MOST_REMAINING = 100  # of a kind
Owner = TypeVar("Owner")

_announced: dict[str, dict[int, tuple[weakref.ref[Any], Callable[[Any], Iterable[Row]]]]] = {}
_remaining: dict[str, deque[Row]] = {}
_lock = threading.RLock()  # a destructor may want it while this thread has it


def announce(
    kind: str,
    owner: Owner,
    describe: Callable[[Owner], Iterable[Row]],
    remains: Row | None = None,
) -> None:
    """Let others ask about an object, for as long as it lives.

    Args:
        kind: What it is one of: "datasets", "runs", "trials", "deployments", "replicas".
        owner: The object.
        describe: Makes rows of it, from any thread and at any time.
        remains: The row of it when it is gone, as long as there are few.
    """
    key = id(owner)

    def forget(gone: weakref.ref[object]) -> None:
        with _lock:
            known = _announced[kind].get(key)
            if known is not None and known[0] is gone:
                del _announced[kind][key]
                if remains is not None:
                    _remaining.setdefault(kind, deque(maxlen=_MOST_REMAINING)).append(remains)

    with _lock:
        _announced.setdefault(kind, {})[key] = (weakref.ref(owner, forget), describe)


def live_rows(kind: str) -> list[Row]:
    """Return the rows of all objects of a kind, in the order in which they were announced; before
    them, what remains of others."""
    with _lock:
        rows = [*_remaining.get(kind, ())]
        found = [(ref(), describe) for ref, describe in _announced.get(kind, {}).values()]
    for owner, describe in found:
        if owner is not None:
            rows += describe(owner)
    return rows


def all_live_rows() -> dict[str, list[Row]]:
    """Return the rows of all kinds that there are, without measurements."""
    with _lock:
        kinds = [kind for kind, known in _announced.items() if known or kind in _remaining]
    return {kind: live_rows(kind) for kind in kinds if kind != MEASUREMENTS}
