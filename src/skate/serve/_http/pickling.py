"""What Starlette and FastAPI have in their applications and pickle refuses or gets wrong."""

from __future__ import annotations

import copyreg
import sys
import threading
from typing import Any

_LOCK = type(threading.Lock())
_REFUSED = (
    ("fastapi.routing", "_IncludedRouter"),
    ("fastapi.datastructures", "DefaultPlaceholder"),
    ("starlette.datastructures", "State"),
)


def teach_pickle() -> None:
    """Let applications of Starlette and FastAPI be pickled, if these are imported.

    An included router holds a lock. State answers for any attribute, also for `__setstate__`.
    One placeholder means "not given" by being itself, so that a copy of it means "None".
    """
    for module, name in _REFUSED:
        cls = getattr(sys.modules.get(module), name, None)
        if cls is not None:
            copyreg.pickle(cls, _reduce)


def _reduce(value: Any) -> str | tuple[Any, ...]:
    for name, known in vars(sys.modules[type(value).__module__]).items():
        if known is value:
            return name
    locks = [name for name, part in vars(value).items() if isinstance(part, _LOCK)]
    state = {name: part for name, part in vars(value).items() if name not in locks}
    return _empty, (type(value),), (state, locks), None, None, _fill


def _empty(cls: Any) -> Any:
    return cls.__new__(cls)


def _fill(value: Any, state: tuple[dict[str, Any], list[str]]) -> None:
    attributes, locks = state
    value.__dict__.update(attributes)
    value.__dict__.update({name: threading.Lock() for name in locks})
