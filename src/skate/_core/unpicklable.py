"""Which part of a value cannot be serialised, and by what path it is reached.

Pickle's own message names a type (`cannot pickle '_thread.lock' object`) but not the place. Here
the value is taken apart the way the pickler does it, and the parts that fail are followed down to
the smallest one: `config.lock`, `jobs[3]['socket']`, or `client` for a variable that a function
captures. Only the failing path is walked; everything is bounded, for it runs when something has
gone wrong already.
"""

from __future__ import annotations

import copyreg
import functools
import io
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

DEPTH = 8
_MAX_PARTS = 1_000  # of one container
_MAX_PROBES = 2_000  # in total
_MAX_FOUND = 10

Part = tuple[str, Any]  # path, value


@dataclass(frozen=True, eq=False)
class Culprit:
    """Something that cannot be serialised: where it is, what it is, and what holds it."""

    path: str
    obj: Any = field(repr=False)
    parent: Any = field(default=None, repr=False)

    @property
    def type_name(self) -> str:
        kind = type(self.obj)
        name = kind.__qualname__
        return name if kind.__module__ == "builtins" else f"{kind.__module__}.{name}"

    def __str__(self) -> str:
        return f"{self.path}: {self.type_name}"


def find_culprits(obj: object, name: str = "value", depth: int = DEPTH) -> list[Culprit]:
    """Return the smallest parts of `obj` that cannot be serialised, at most `depth` steps down.

    Empty if `obj` can be. Never raises for what it finds.
    """
    walk = _Walk()
    if walk.passes(obj):
        return []
    walk.follow(name, obj, None, depth)
    return walk.found


class _Walk:
    def __init__(self) -> None:
        self.found: list[Culprit] = []
        self._seen: dict[int, Any] = {}  # keeps the values alive, so that ids stay theirs
        self._probes = 0

    def follow(self, path: str, obj: object, parent: object, depth: int) -> None:
        """Record what fails below `obj`, which is known to fail; `obj` itself if nothing does."""
        self._seen[id(obj)] = obj
        failing = 0
        for part_path, part in _parts_safely(path, obj, root=parent is None) if depth else ():
            if self._is_new(part) and not self.passes(part):
                failing += 1
                self.follow(part_path, part, obj, depth - 1)
        if not failing:
            self.found.append(Culprit(path, obj, parent))

    def _is_new(self, part: object) -> bool:
        self._probes += 1
        within = self._probes <= _MAX_PROBES and len(self.found) < _MAX_FOUND
        return within and id(part) not in self._seen

    def passes(self, obj: object) -> bool:
        try:
            _pickler().dump(obj)
        except Exception:
            return False
        return True


def _pickler() -> Any:
    from skate._core.serialization import _Pickler

    return _Pickler(io.BytesIO())


def _parts_safely(path: str, obj: object, root: bool) -> Iterator[Part]:
    try:
        yield from islice(_parts(path, obj, root), _MAX_PARTS)
    except Exception:
        return  # user code (a property, __reduce__) failed: `obj` is as far as we get


def _parts(path: str, obj: Any, root: bool) -> Iterator[Part]:
    if isinstance(obj, types.FunctionType):
        yield from variables("" if root else f"{path} → ", obj)
    elif isinstance(obj, types.MethodType):
        yield f"{path}.__self__", obj.__self__
        yield f"{path}.__func__", obj.__func__
    elif isinstance(obj, functools.partial):
        yield f"{path}.func", obj.func
        yield from _items(f"{path}.args", obj.args)
        yield from _entries(f"{path}.keywords", obj.keywords)
    elif isinstance(obj, type):
        yield from members(path, obj)
    elif type(obj) is dict:
        yield from _entries(path, obj)
    elif type(obj) in (list, tuple):
        yield from _items(path, obj)
    elif type(obj) in (set, frozenset):
        yield from ((f"{path}{{{_short(item)}}}", item) for item in obj)
    else:
        yield from _reduced(path, obj)


def variables(prefix: str, function: types.FunctionType) -> Iterator[Part]:
    """Yield what a function takes with it: captured and global variables, defaults, attributes."""
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            yield f"{prefix}{name}", cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in sorted(_names(function.__code__)):
        if name in function.__globals__:
            yield f"{prefix}{name}", function.__globals__[name]
    arguments = function.__code__.co_varnames[: function.__code__.co_argcount]
    defaults = function.__defaults__ or ()
    names = arguments[len(arguments) - len(defaults) :]
    for name, value in (
        *zip(names, defaults, strict=True),
        *(function.__kwdefaults__ or {}).items(),
    ):
        yield f"{prefix}default of {name}", value
    for name, value in function.__dict__.items():
        yield f"{prefix}{function.__name__}.{name}", value


def _names(code: types.CodeType) -> set[str]:
    """Return the names that a function and the functions written inside it look up."""
    names = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            names |= _names(constant)
    return names


def members(path: str, cls: type) -> Iterator[Part]:
    for name, member in cls.__dict__.items():
        if name not in ("__dict__", "__weakref__"):
            member = getattr(member, "__func__", getattr(member, "fget", member))
            yield f"{path}.{name}", member
    for base in cls.__bases__:
        yield f"{path}.__bases__.{base.__name__}", base


def _reduced(path: str, obj: object) -> Iterator[Part]:
    """Yield the parts that the pickler would take: constructor arguments, state, items."""
    reduced = _reduction(obj)
    if not isinstance(reduced, tuple):
        return
    _, arguments, state, items, entries = (*reduced, None, None, None)[:5]
    yield from _state(path, state)
    yield from _items(path, items or ())
    yield from _pairs(path, entries or ())
    for index, argument in enumerate(arguments):
        label = "__class__" if isinstance(argument, type) else f"__reduce__[{index}]"
        yield f"{path}.{label}", argument


def _reduction(obj: object) -> Any:
    reduced = _pickler().reducer_override(obj)
    if reduced is not NotImplemented:
        return reduced
    by_type = copyreg.dispatch_table.get(type(obj))
    return by_type(obj) if by_type else obj.__reduce_ex__(4)


def _state(path: str, state: object) -> Iterator[Part]:
    """Yield attributes, be they in a dictionary, in slots, or in both."""
    for part in state if isinstance(state, tuple) and len(state) == 2 else (state,):
        if isinstance(part, Mapping):
            yield from ((f"{path}.{name}", value) for name, value in part.items())
        elif part is not None:
            yield f"{path}.__getstate__()", part


def _entries(path: str, mapping: Mapping[Any, Any]) -> Iterator[Part]:
    yield from _pairs(path, mapping.items())


def _pairs(path: str, pairs: Iterable[tuple[object, object]]) -> Iterator[Part]:
    for key, value in pairs:
        yield f"{path}[{_short(key)}]", value
        yield f"{path}.keys()[{_short(key)}]", key


def _items(path: str, items: Iterable[object]) -> Iterator[Part]:
    yield from ((f"{path}[{index}]", item) for index, item in enumerate(items))


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:37]}..."
