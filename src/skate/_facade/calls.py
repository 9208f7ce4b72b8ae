"""The bases of what has a `.remote(...)`, as they run: they take type arguments, and that is all.

What the arguments mean is for type checkers, which read `calls.pyi` instead of this file.
"""

from __future__ import annotations

from types import GenericAlias
from typing import Any

P: Any
R_co: Any
Out_co: Any
C_co: Any
Maker_co: Any
P = R_co = Out_co = C_co = Maker_co = None


class Typed:
    """A class that takes type arguments, any number of them."""

    __slots__ = ()
    __class_getitem__ = classmethod(GenericAlias)


class RemoteCallable(Typed):
    """A function or method that runs elsewhere."""

    __slots__ = ()


class ActorMaker(Typed):
    """A class whose instances live elsewhere."""

    __slots__ = ()


class ActorTyped(Typed):
    """A handle of an actor."""

    __slots__ = ()


class TypedActor:
    """The base of `Actor`."""

    __slots__ = ()
