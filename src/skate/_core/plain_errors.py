"""Public functions whose errors begin where the user has called them.

What an error went through inside of skate says nothing about the mistake, and hides the line that
does. `SKATE_TRACEBACK=full` shows all of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from types import FunctionType
from typing import ParamSpec, TypeVar

from skate._core.errors import without_own_frames

__tracebackhide__ = True  # of pytest, likewise

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def failing_plainly(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, whose errors are raised without the frames of skate below it."""

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            raise without_own_frames(error)

    return call


def methods_failing_plainly(cls: C) -> C:
    """Do so with the public methods that the class itself defines, generators left out."""
    for name, method in list(vars(cls).items()):
        if _is_public_method(name, method):
            setattr(cls, name, failing_plainly(method))
    return cls


def _is_public_method(name: str, thing: object) -> bool:
    public = isinstance(thing, FunctionType) and not name.startswith("_")
    return public and not inspect.isgeneratorfunction(thing)
