"""Public enumerations, as users meet them in `help()` and in editors."""

from __future__ import annotations

from enum import Enum
from inspect import Parameter, Signature
from typing import TypeVar

from skate._core.signature import show_signature

E = TypeVar("E", bound=Enum)

_BY_VALUE = Signature([Parameter("value", Parameter.POSITIONAL_ONLY)])


def looked_up_by_value(kind: type[E]) -> type[E]:
    """Say that a member is had by its value: `help()` shows how new enumerations are made instead.

    Args:
        kind: The enumeration, which is returned.
    """
    show_signature(kind, _BY_VALUE)
    return kind
