"""Nodes anywhere inside a value, also in objects of the user's classes: found, and replaced.

The value is taken apart and put together by its own pickling. Nodes, references and what cannot
hold a node stay outside, as they are.
"""

from __future__ import annotations

import io
import pickle
import types
from collections.abc import Callable
from typing import Any

import cloudpickle

from skate._core.refs import ObjectRef, ObjectRefGenerator
from skate._facade.actor_handle import ActorHandle, ActorMethod

_PLAIN = (str, bytes, int, float, complex, bool, types.NoneType)
_KEPT: tuple[type, ...] = (ObjectRef, ObjectRefGenerator, ActorHandle, ActorMethod)
_KEPT += (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


class Nested:
    """The base of whatever is looked for inside values."""


class Parts(cloudpickle.Pickler):
    """Takes a value apart; instances of `wanted` are what it looks for."""

    def __init__(self, value: object, wanted: type | tuple[type, ...] = Nested) -> None:
        self._wanted = wanted if isinstance(wanted, tuple) else (wanted,)
        self._outside = (*self._wanted, *_KEPT)
        self.kept: list[Any] = []
        self._file = io.BytesIO()
        super().__init__(self._file)
        self.dump(value)

    def persistent_id(self, part: object) -> int | None:
        if isinstance(part, self._outside) or hasattr(type(part), "__array__"):
            self.kept.append(part)
            return len(self.kept) - 1
        return None

    def joined(self, replace: Callable[[Any], Any]) -> Any:
        """Return the value again, with something else in the place of what was looked for."""
        return _Joiner(self._file.getbuffer(), self._put_back(replace)).load()

    def found(self) -> list[Any]:
        """Return what was looked for, as often as it was met."""
        return [part for part in self.kept if isinstance(part, self._wanted)]

    def _put_back(self, replace: Callable[[object], object]) -> Callable[[int], object]:
        def part_of(index: int) -> object:
            part = self.kept[index]
            return replace(part) if isinstance(part, self._wanted) else part

        return part_of


class _Joiner(pickle.Unpickler):
    def __init__(self, content: memoryview, part_of: Callable[[int], object]) -> None:
        super().__init__(io.BytesIO(content))
        self._part_of = part_of

    def persistent_load(self, index: int) -> object:
        return self._part_of(index)


def nested_in(value: object) -> list[Any]:
    """Find the nodes inside a value, each once, in the order in which they are met."""
    if isinstance(value, Nested):
        return [value]
    if isinstance(value, (*_PLAIN, *_KEPT)):
        return []
    return [*dict.fromkeys(Parts(value).found())]


def replaced(value: object, replace: Callable[[object], object]) -> object:
    """Return the value with other nodes inside; the value itself if there are none."""
    if isinstance(value, Nested):
        return replace(value)
    if isinstance(value, (*_PLAIN, *_KEPT)):
        return value
    parts = Parts(value)
    return parts.joined(replace) if parts.found() else value
