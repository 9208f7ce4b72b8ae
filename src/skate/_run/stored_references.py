"""References in files: an object lives as long as its session, a file longer.

A reference is stored with the name of its session. Read there, it is itself again; read in another
session, where its number may be that of another object, it is a `LostReference`.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from typing import Any

import skate
from skate._core.refs import ObjectRef

#: Where the references are noted that are lost while something is read.
lost_here: ContextVar[list[LostReference] | None] = ContextVar("lost_references", default=None)


class LostReference:
    """What a file says of an object whose session is over.

    Attributes:
        hex: The number that the reference had.
        session: The name of its session.
    """

    def __init__(self, hex: str, session: str) -> None:
        self.hex = hex
        self.session = session

    def __repr__(self) -> str:
        return f"LostReference({self.hex!r}, session={self.session!r})"


def reduced(ref: ObjectRef[object]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """Return how to pickle a reference into a file, as `__reduce__` would.

    Args:
        ref: A reference of the current session.
    """
    make, arguments = ref.__reduce__()
    return _stored, (_session(), ref.hex(), make, arguments)


def _stored(
    session: str, hex: str, make: Callable[..., object], arguments: tuple[object, ...]
) -> Any:
    if session and session == _session():
        return make(*arguments)
    lost = LostReference(hex, session)
    noted = lost_here.get()
    if noted is not None:
        noted.append(lost)
    return lost


def _session() -> str:
    return skate.get_runtime_context().get_session_name() if skate.is_initialized() else ""
