"""`ray.util.annotations`: marks that libraries put on their own functions and classes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from skate._core.deprecations import RayDeprecationWarning

__all__ = ["Deprecated", "DeveloperAPI", "PublicAPI", "RayDeprecationWarning"]

_Marked = TypeVar("_Marked")


def _mark(*args: object, **facts: object) -> object:
    if len(args) == 1 and not facts and callable(args[0]):
        return args[0]

    def unchanged(target: _Marked) -> _Marked:
        return target

    return unchanged


PublicAPI: Callable[..., Any] = _mark
DeveloperAPI: Callable[..., Any] = _mark
Deprecated: Callable[..., Any] = _mark
