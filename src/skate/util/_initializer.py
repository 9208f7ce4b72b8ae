"""What an initializer sets, for functions that come to its process later.

A script's functions travel by value, each pickle with globals of its own. What an initializer sets
there (`global model; model = load(path)`) another function would not find. So it is lent to each
function of the same module, once, before its first call, as if both had the same globals.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from typing import Any

_LENT_BY = "__skate_lent_by__"
_CODE = (types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type)


class Initialized:
    """Call an initializer, and keep the globals that it set or used, for functions like it.

    Args:
        initializer: The function.
        initargs: Its arguments.
    """

    def __init__(self, initializer: Callable[..., object], initargs: Iterable[object]) -> None:
        spaces = list(_globals_of(initializer))
        before = [dict(space) for space in spaces]
        initializer(*initargs)
        self._spaces = [
            (space, _lendable(space, old)) for space, old in zip(spaces, before, strict=True)
        ]

    def lend_to(self, *functions: object) -> None:
        """Give functions what the initializer set, if they are of the same module."""
        for own in chain.from_iterable(map(_globals_of, functions)):
            if own.get(_LENT_BY) is self:
                continue
            for space, values in self._spaces:
                if own is not space and own.get("__name__") == space.get("__name__"):
                    own.update(values)
                    own[_LENT_BY] = self


def _lendable(space: dict[str, Any], before: dict[str, Any]) -> dict[str, Any]:
    """Return what was set; and of globals that came by value, the data that the initializer
    used."""
    module = sys.modules.get(str(space.get("__name__")))
    by_value = getattr(module, "__dict__", None) is not space
    missing = object()
    return {
        name: value
        for name, value in space.items()
        if before.get(name, missing) is not value
        or (by_value and not name.startswith("__") and not isinstance(value, _CODE))
    }


def _globals_of(value: object) -> Iterator[dict[str, Any]]:
    """Yield the globals of a function, and of those that it is made of."""
    left, seen = [value], set[int]()
    while left:
        part = left.pop()
        if id(part) in seen:
            continue
        seen.add(id(part))
        if isinstance(part, types.FunctionType):
            yield part.__globals__
        left += _parts(part)


def _parts(value: object) -> Iterator[object]:
    """Yield what a callable calls, as far as that can be seen from outside."""
    if isinstance(value, functools.partial):
        yield from (value.func, *value.args, *value.keywords.values())
    elif isinstance(value, types.MethodType):
        yield value.__func__
    elif isinstance(value, types.FunctionType):
        yield getattr(value, "__wrapped__", None)
        for cell in value.__closure__ or ():
            with contextlib.suppress(ValueError):  # it has no value yet
                yield cell.cell_contents
    else:
        name = "__init__" if isinstance(value, type) else "__call__"
        called = getattr(value if isinstance(value, type) else type(value), name, None)
        if isinstance(called, types.FunctionType):  # not what is written in C
            yield called
