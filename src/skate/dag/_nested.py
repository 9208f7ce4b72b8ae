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

from skate._actor import ActorHandle, ActorMethod
from skate._refs import ObjectRef, ObjectRefGenerator

_PLAIN = (str, bytes, int, float, complex, bool, types.NoneType)
_KEPT: tuple[type, ...] = (ObjectRef, ObjectRefGenerator, ActorHandle, ActorMethod)
_KEPT += (type, types.FunctionType, types.BuiltinFunctionType, types.ModuleType)


class Nested:
    """The base of whatever is looked for inside values."""


class _Parts(cloudpickle.Pickler):  # type: ignore[misc]
    """Takes a value apart."""

    def __init__(self, value: Any) -> None:
        self.kept: list[Any] = []
        self._file = io.BytesIO()
        super().__init__(self._file)
        self.dump(value)

    def persistent_id(self, part: Any) -> int | None:
        if isinstance(part, (Nested, *_KEPT)) or hasattr(type(part), "__array__"):
            self.kept.append(part)
            return len(self.kept) - 1
        return None

    def joined(self, replace: Callable[[Any], Any]) -> Any:
        """The value again, with other nodes."""
        return _Joiner(self._file.getbuffer(), self.kept, replace).load()


class _Joiner(pickle.Unpickler):
    def __init__(
        self, content: memoryview, kept: list[Any], replace: Callable[[Any], Any]
    ) -> None:
        super().__init__(io.BytesIO(content))
        self._kept, self._replace = kept, replace

    def persistent_load(self, index: int) -> Any:
        part = self._kept[index]
        return self._replace(part) if isinstance(part, Nested) else part


def nested_in(value: Any) -> list[Any]:
    """The nodes inside a value, each once, in the order in which they are met."""
    if isinstance(value, Nested):
        return [value]
    if isinstance(value, (*_PLAIN, *_KEPT)):
        return []
    return [*dict.fromkeys(part for part in _Parts(value).kept if isinstance(part, Nested))]


def replaced(value: Any, replace: Callable[[Any], Any]) -> Any:
    """The value with other nodes inside; the value itself if there are none."""
    if isinstance(value, Nested):
        return replace(value)
    if isinstance(value, (*_PLAIN, *_KEPT)):
        return value
    parts = _Parts(value)
    holds_nodes = any(isinstance(part, Nested) for part in parts.kept)
    return parts.joined(replace) if holds_nodes else value
