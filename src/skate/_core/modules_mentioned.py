"""Which modules a function will want, found out without calling it.

A worker that is forked where they are imported begins at once; one that has to import torch by
itself begins seconds later, and the next one beside it takes as long again.
"""

from __future__ import annotations

import contextlib
import functools
import sys
import types
from collections.abc import Iterator

_MOST_VISITED = 200  # functions and classes that one may lead to
_WITH_CODE = (types.FunctionType, type)


def modules_mentioned(function: object) -> list[str]:
    """Return names of loaded modules that a function or class mentions, or what it calls does.

    These are the modules among its globals, parts of these that it names (as `torch.optim`), those
    that it imports when it is called, and what is imported with the module that it is found in,
    which workers import by its name. What it calls is looked into if it is of the same package.

    Args:
        function: A function, a class, or an instance that can be called.
    """
    found: set[str] = set()
    visited: set[int] = set()
    while isinstance(function, functools.partial):
        function = function.func
    function = getattr(function, "__func__", function)
    waiting = [function if isinstance(function, _WITH_CODE) else type(function)]
    package = _package_of(waiting[0])
    while waiting and len(visited) < _MOST_VISITED:
        value = waiting.pop()
        if id(value) in visited:
            continue
        visited.add(id(value))
        found |= _imported_with(value.__module__)
        if _package_of(value) == package:
            for used in _used_by(value):
                if isinstance(used, _WITH_CODE):
                    waiting.append(used)
                else:
                    found.add(str(used))
    return sorted(found)


def _package_of(value: type | types.FunctionType) -> str:
    return (value.__module__ or "").partition(".")[0]


def _imported_with(module: str) -> set[str]:
    """Return the modules that a module has among its names; none of the program itself, of which
    functions are sent without the rest."""
    scope = {} if module in (None, "__main__") else vars(sys.modules.get(module, object))
    return {each.__name__ for each in scope.values() if isinstance(each, types.ModuleType)}


def _used_by(value: type | types.FunctionType) -> Iterator[object]:
    """Yield the functions and classes that it may call, and the names of modules."""
    if isinstance(value, type):
        yield from (each for each in vars(value).values() if isinstance(each, _WITH_CODE))
        return
    scope = {**value.__globals__, **dict(_enclosed(value))}
    names = set(_names_in(value.__code__))
    for name in names:
        used = scope.get(name)
        if used is None and name in sys.modules:  # imported by the call
            used = sys.modules[name]
        if isinstance(used, types.ModuleType):
            yield used.__name__
            parts = (f"{used.__name__}.{part}" for part in names)
            yield from (part for part in parts if part in sys.modules)
        elif isinstance(used, _WITH_CODE):
            yield used


def _enclosed(function: types.FunctionType) -> Iterator[tuple[str, object]]:
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # a name that has no value yet
            yield name, cell.cell_contents


def _names_in(code: types.CodeType) -> Iterator[str]:
    yield from code.co_names
    yield from code.co_freevars
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from _names_in(constant)
