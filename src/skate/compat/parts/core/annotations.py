"""`ray.util.annotations`: marks that libraries put on their own functions and classes."""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from skate._core.deprecations import RayDeprecationWarning

__all__ = ["Deprecated", "DeveloperAPI", "PublicAPI", "RayDeprecationWarning"]

_Marked = TypeVar("_Marked")

if not sys.warnoptions:  # otherwise who runs the program has said what to show
    warnings.filterwarnings("module", category=RayDeprecationWarning)


def _mark(*args: object, **facts: object) -> object:
    if len(args) == 1 and not facts and callable(args[0]):
        return args[0]

    def unchanged(target: _Marked) -> _Marked:
        return target

    return unchanged


PublicAPI: Callable[..., Any] = _mark
DeveloperAPI: Callable[..., Any] = _mark


def Deprecated(*args: Any, message: str = "", warning: bool = False) -> Any:  # noqa: N802
    """Say in its docstring that a function or class will go, and when it is used if asked to.

    Args:
        args: The function or class, where nothing else is given.
        message: What to do instead.
        warning: Whether its use is a `RayDeprecationWarning`.
    """
    if len(args) == 1 and callable(args[0]):
        return Deprecated()(args[0])
    said = f"This is deprecated and may be removed. {message}".strip()

    def marked(target: Any) -> Any:
        target.__doc__ = f"{target.__doc__ or ''}\n\n.. warning::\n\n    {said}\n"
        if not warning:
            return target
        if not isinstance(target, type):
            return _warning(target, said)
        changed: Any = target
        changed.__init__ = _warning(changed.__init__, said)
        return changed

    return marked


def _warning(function: Callable[..., Any], said: str) -> Callable[..., Any]:
    @functools.wraps(function)
    def warned(*args: Any, **kwargs: Any) -> Any:
        warnings.warn(said, RayDeprecationWarning, stacklevel=2)
        return function(*args, **kwargs)

    return warned
