"""Arguments and functions on their way to a worker."""

from __future__ import annotations

import os
import pickle
import sys
import types
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from skate import exceptions
from skate._core import serialization
from skate._core.refs import ObjectRef
from skate._core.serialization import NO_ARGUMENTS, Serialized
from skate.engine.local.objects import INLINE, INLINE_LIMIT_BYTES, STORED

_PACKAGE = os.path.dirname(exceptions.__file__) + os.sep

_MOST_BYTES_SEARCHED = 65536  # of a pickle, for the names of modules
LARGE_CAPTURE_BYTES = 10 << 20  # a function that carries more is worth a warning

Dependencies = list[tuple[int | str, ObjectRef[Any]]]
Put = Callable[[Serialized], ObjectRef[Any]]


class PackedArguments:
    """Packed arguments, the references among them, and those nested inside."""

    __slots__ = ("data", "dependencies", "kind", "nested")

    def __init__(
        self, kind: int, data: object, dependencies: Dependencies, nested: list[ObjectRef[object]]
    ) -> None:
        self.kind: int = kind
        self.data: Any = data
        self.dependencies: Dependencies = dependencies
        self.nested: list[ObjectRef[Any]] = nested


_NOTHING = PackedArguments(INLINE, NO_ARGUMENTS, [], [])


def pack(args: tuple[object, ...], kwargs: dict[str, object], put: Put) -> PackedArguments:
    """Serialise; references at the top level are left out, to be filled in with their values.

    Large arguments become an object of their own: the callee may keep views on them.
    """
    if not args and not kwargs:
        return _NOTHING
    dependencies: Dependencies = []
    if ObjectRef in map(type, args):
        dependencies += [(i, value) for i, value in enumerate(args) if type(value) is ObjectRef]
        args = tuple(None if type(value) is ObjectRef else value for value in args)
    if kwargs and ObjectRef in map(type, kwargs.values()):
        dependencies += [(k, value) for k, value in kwargs.items() if type(value) is ObjectRef]
        kwargs = {k: v for k, v in kwargs.items() if type(v) is not ObjectRef}
    if not kwargs and serialization.is_plain(args):
        data = pickle.dumps((args, kwargs), 5)
        if len(data) <= INLINE_LIMIT_BYTES:
            return PackedArguments(INLINE, data, dependencies, [])
    serialized = _dumps(args, kwargs)
    if serialized.size <= INLINE_LIMIT_BYTES:
        return PackedArguments(INLINE, serialized.packed(), dependencies, serialized.refs)
    ref = put(serialized)
    return PackedArguments(STORED, (ref._entry.data, ref._id), dependencies, [ref])


def _dumps(args: tuple[object, ...], kwargs: dict[str, object]) -> Serialized:
    try:
        return serialization.dumps((args, kwargs), "arguments")
    except TypeError as error:
        unnamed = error
    for name, value in _named(args, kwargs):  # the same again, to name the argument
        serialization.dumps(value, name)
    raise unnamed


def _named(args: tuple[object, ...], kwargs: dict[str, object]) -> Iterator[tuple[str, Any]]:
    for position, value in enumerate(args):
        yield f"the argument {position}", value
    yield from kwargs.items()


def unpack(value: Any, dependencies: Sequence[tuple[int | str, object]]) -> tuple[Any, Any]:
    """Return (args, kwargs) with the values of the dependencies in their places."""
    args, kwargs = value
    if dependencies:
        args = list(args)
        for slot, dependency in dependencies:
            if isinstance(slot, int):
                args[slot] = dependency
            else:
                kwargs[slot] = dependency
    return args, kwargs


def dump_function(function: object, name: str) -> Serialized:
    """Serialise a function or class; warn once if it carries something large."""
    serialized = serialization.dumps(function, name)
    if serialized.size > LARGE_CAPTURE_BYTES:
        captured = ", ".join(
            f"{variable} ({size / 1e6:,.0f} MB)" for variable, size in _captured(function)
        )
        warnings.warn(
            f"{name} is large ({serialized.size / 1e6:,.0f} MB) because it uses "
            f"{captured or 'a large object'} from outside. It is kept once in shared memory; "
            "pass it as an argument, after skate.put(), to share it between functions too.",
            stacklevel=_level_of_user(),
        )
    return serialized


def modules_used(function: object, payload: bytes) -> bytes:
    """Return where to look for names of modules: the pickle, and the globals of what is by
    reference."""
    scope = getattr(function, "__globals__", None)
    if scope is None:
        scope = vars(sys.modules.get(getattr(function, "__module__", ""), object))
    names = {value.__name__ for value in scope.values() if isinstance(value, types.ModuleType)}
    return payload[:_MOST_BYTES_SEARCHED] + " ".join(names).encode()


def _level_of_user() -> int:
    """Return how far up the stack the caller finds the first frame that is not skate's own."""
    frame: types.FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level


def _captured(function: object) -> list[tuple[str, int]]:
    """Find variables from outside that make a function (or the methods of a class) large."""
    found = {variable: _size(value) for variable, value in _from_outside(function)}
    large = [
        (variable, size) for variable, size in found.items() if size > LARGE_CAPTURE_BYTES // 10
    ]
    return sorted(large, key=lambda variable_and_size: -variable_and_size[1])


def _from_outside(function: object) -> Iterator[tuple[str, Any]]:
    from skate._core.unpicklable import members, variables

    if isinstance(function, types.FunctionType):
        yield from variables("", function)
    elif isinstance(function, type):
        for name, member in members(function.__name__, function):
            is_method = isinstance(member, types.FunctionType)
            yield from variables("", member) if is_method else [(name, member)]


def _size(value: object) -> int:
    try:
        return serialization.dumps(value).size
    except TypeError:
        return 0
