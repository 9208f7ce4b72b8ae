"""Public functions whose errors begin where the user has called them.

What an error went through inside of skate says nothing about the mistake, and hides the line that
does. `SKATE_TRACEBACK=full` shows all of it.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from types import FunctionType
from typing import ParamSpec, TypeVar

from skate._core.errors import without_own_frames
from skate._core.nearest import unknown_parameter

__tracebackhide__ = True  # of pytest, likewise

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


def failing_plainly(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function, whose errors are raised without the frames of skate below it."""

    @functools.wraps(function)
    def _call(*args: P.args, **kwargs: P.kwargs) -> R:  # waits name the first public frame
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if isinstance(error, TypeError) and _has_not_begun(error):
                raise _misfit(_call, error, kwargs) from None
            raise without_own_frames(error)

    return _call


def _has_not_begun(error: TypeError) -> bool:
    """Return whether the frame that called a function has the error, and none of the function."""
    return error.__traceback__ is not None and error.__traceback__.tb_next is None


def _misfit(function: Callable[..., object], error: TypeError, given: Iterable[str]) -> TypeError:
    """Return what says more than Python's error for arguments that a function does not take."""
    known = inspect.signature(function).parameters
    for name in given:
        if name not in known:
            return unknown_parameter(function.__name__, name, known)
    # Not the class that a public one gets the method from: nobody has heard of that.
    return TypeError(str(error).replace(f"{function.__qualname__}(", f"{function.__name__}("))


def methods_failing_plainly(cls: C) -> C:
    """Do so with the public methods that the class itself defines, generators left out."""
    for name, method in list(vars(cls).items()):
        if _is_public_method(name, method):
            setattr(cls, name, failing_plainly(method))
    return cls


def _is_public_method(name: str, thing: object) -> bool:
    public = isinstance(thing, FunctionType) and not name.startswith("_")
    return public and not inspect.isgeneratorfunction(thing)
