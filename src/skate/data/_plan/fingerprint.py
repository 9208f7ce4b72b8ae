"""What a plan is made of, as text that two runs of a program can compare.

Each operation is described by what decides about its rows: files with sizes and times, the code of
functions with the values that they use, arguments. Where and how often things run is no part of
it. Objects of unknown classes count by their class and their plain attributes.
"""

from __future__ import annotations

import dataclasses
import hashlib
import inspect
import types
from collections.abc import Iterator, Mapping
from enum import Enum
from functools import partial
from pathlib import PurePath
from typing import Any

import numpy as np
import pyarrow as pa

from skate.data._arrow.blocks import compact
from skate.data._execution.udf import UserFunction, name_of
from skate.data._expressions.expression import Expr
from skate.data._plan import nodes as plan
from skate.data.sources.files import FileOptions, FileSource

Description = dict[str, str]
_PLAIN = (type(None), bool, int, float, complex, str, bytes)
_SHOWN = 80  # characters; what is longer is shown by its digest
_NOT_ROWS = {"children", "input", "compute", "options", "label", "bundles", "source", "name"}
_PLACES = {"place", "paths", "filesystem"}  # of files, which are compared one by one


def described(node: plan.Node) -> list[Description]:
    """Describe the operations, from the last to the sources."""
    return [_of_node(each) for each in plan.walk(node)]


def files_of(node: plan.Node) -> dict[str, list[int]]:
    """Find the files that are read, with their sizes and times of change in nanoseconds."""
    found: dict[str, list[int]] = {}
    for each in plan.walk(node):
        source = each.source if isinstance(each, plan.Read) else None
        if isinstance(source, FileSource):
            paths = source.files()
            infos = source.place.filesystem.get_file_info(paths)
            sizes = [file.size for file in source.place.files]
            for path, size, info in zip(paths, sizes, infos, strict=True):
                found[path] = [size, info.mtime_ns or 0]
    return found


def changes(before: list[Description], now: list[Description]) -> list[str]:
    """Say in words what is different between two plans."""
    if [each["step"] for each in before] != [each["step"] for each in now]:
        old, new = (" <- ".join(each["step"] for each in plan_) for plan_ in (before, now))
        return [f"the plan was {old}, and is {new}"]
    return [
        f"{now_['step']}: {name} {_was_and_is(old.get(name), now_.get(name))}"
        for old, now_ in zip(before, now, strict=True)
        for name in {**old, **now_}
        if old.get(name) != now_.get(name)
    ]


def changes_of_files(before: Mapping[str, Any], now: Mapping[str, Any]) -> list[str]:
    """Say in words what is different between the files; a few stand for many."""
    found = [f"the file {path} is gone" for path in before if path not in now]
    found += [f"the file {path} is new" for path in now if path not in before]
    for path, (size, changed) in now.items():
        if path in before and list(before[path]) != [size, changed]:
            was = before[path][0]
            what = f"had {was} bytes, has {size}" if was != size else "was written again"
            found.append(f"the file {path} {what}")
    return found if len(found) <= 5 else [*found[:5], f"and {len(found) - 5} other files"]


def _was_and_is(old: str | None, new: str | None) -> str:
    if old is None or new is None:
        return "is new" if old is None else "is gone"
    shown = not old.startswith("#") and not new.startswith("#")
    return f"was {old}, and is {new}" if shown else "has changed"


# -- descriptions -------------------------------------------------------------------------------


def _of_node(node: plan.Node) -> Description:
    found = {"step": node.name}
    if isinstance(node, plan.Input):
        blocks = [compact(bundle.get()) for bundle in node.bundles]
        found["rows"] = str(sum(block.num_rows for block in blocks))
        found["content"] = shown(blocks)
    if isinstance(node, plan.Read):
        found.update(_of_fields(node.source, "source"))
    for name, value in _fields(node):
        found.update(_of_fields(value, name))
    return found


def _of_fields(value: object, name: str) -> Description:
    """Describe each field of an object of ours; of anything else, the whole."""
    if isinstance(value, UserFunction):
        return _of_function(value)
    if not _is_ours(value) or isinstance(value, (Expr, Enum)):
        return {name: shown(value)}
    found: Description = {}
    for inner, part in _fields(value):
        found.update(_of_fields(part, inner))
    return found


def _of_function(udf: UserFunction) -> Description:
    name = name_of(udf.fn)
    found = {f"function {name}": shown(udf.fn)}
    for label in ("args", "kwargs", "constructor_args", "constructor_kwargs"):
        if getattr(udf, label):
            found[f"fn_{label}"] = shown(getattr(udf, label))
    for variable, value in _variables(_code_owner(udf.fn)):
        found[f"{variable} that {name} uses"] = shown(value)
    return found


def variables_of(function: object) -> Description:
    """Describe what a function of ours was made with: each value by its name, keywords by their
    own."""
    if isinstance(function, partial):
        return {f"argument {n}": shown(value) for n, value in enumerate(function.args)}
    found: Description = {}
    for name, value in _variables(function):
        if isinstance(value, dict):
            found.update({str(key): shown(item) for key, item in value.items()})
        else:
            found[name] = shown(value)
    return found


def _code_owner(fn: object) -> object:
    """Return the function that is called."""
    if isinstance(fn, type):
        return vars(fn).get("__call__")
    return fn if inspect.isfunction(fn) else vars(type(fn)).get("__call__")


def _fields(value: object) -> Iterator[tuple[str, object]]:
    if dataclasses.is_dataclass(value):
        named = [
            (field.name, getattr(value, field.name, None)) for field in dataclasses.fields(value)
        ]
    else:
        named = sorted(getattr(value, "__dict__", {}).items())
    ignored = _NOT_ROWS if isinstance(value, plan.Node) else {"name"}
    if isinstance(value, (FileSource, FileOptions)):
        ignored = ignored | _PLACES
    return ((name, part) for name, part in named if name not in ignored and name[0] != "_")


def _is_ours(value: object) -> bool:
    return type(value).__module__.startswith("skate.")


def shown(value: object) -> str:
    """Write the value as text if it is short and plain, else as a digest that begins with '#'."""
    if isinstance(value, _PLAIN) and len(repr(value)) <= _SHOWN:
        return repr(value)
    return "#" + Digest().of(value)


# -- digests ------------------------------------------------------------------------------------


class Digest:
    """Makes digests that are the same in every process."""

    def __init__(self) -> None:
        self._inside: set[int] = set()

    def of(self, value: object) -> str:
        """Compute a digest of a value; of one that contains itself, of the rest."""
        if id(value) in self._inside:
            return "itself"
        self._inside.add(id(value))
        try:
            content = self._content(value)
        finally:
            self._inside.discard(id(value))
        text = content if isinstance(content, bytes) else content.encode("utf-8", "surrogatepass")
        return hashlib.blake2b(text, digest_size=12).hexdigest()

    def _content(self, value: object) -> str | bytes:
        kind = type(value)
        if isinstance(value, _PLAIN):
            return f"{kind.__name__} {value!r}"
        if isinstance(value, (list, tuple)):
            return f"{kind.__name__} {[self.of(item) for item in value]}"
        if isinstance(value, Mapping):
            return f"mapping {sorted((self.of(k), self.of(v)) for k, v in value.items())}"
        if isinstance(value, (set, frozenset)):
            return f"set {sorted(self.of(item) for item in value)}"
        if isinstance(value, (Enum, PurePath, pa.DataType, pa.Schema, np.dtype)):
            return f"{kind.__name__} {value}"
        if isinstance(value, (np.ndarray, np.generic)):
            return self._array(np.asarray(value))
        if isinstance(value, (pa.Table, pa.RecordBatch)):
            return _table(value)
        return self._code(value) or self._object(value)

    def _array(self, array: Any) -> str | bytes:
        if array.dtype.hasobject:
            return f"objects {array.shape} {self.of(array.tolist())}"
        return f"{array.dtype} {array.shape} ".encode() + np.ascontiguousarray(array).tobytes()

    def _code(self, value: object) -> str:
        if isinstance(value, partial):
            return f"partial {self.of((value.func, value.args, value.keywords))}"
        if isinstance(value, types.MethodType):
            return f"method {self.of((value.__func__, value.__self__))}"
        if isinstance(value, types.FunctionType):
            parts = [value.__code__, value.__defaults__, value.__kwdefaults__]
            return f"function {self.of([*parts, [v for _, v in _variables(value)]])}"
        if isinstance(value, types.CodeType):
            return f"code {value.co_code.hex()} {self.of([value.co_consts, value.co_names])}"
        if isinstance(value, (staticmethod, classmethod)):
            return self.of(value.__func__)
        if isinstance(value, type) and not value.__module__.startswith("skate."):
            own = [(name, part) for name, part in sorted(vars(value).items()) if _is_code(part)]
            return f"class {value.__qualname__} {self.of(own)}"
        if isinstance(value, type) or (callable(value) and hasattr(value, "__qualname__")):
            return f"{value.__module__}.{value.__qualname__}"
        return ""

    def _object(self, value: object) -> str:
        kind = type(value)
        if isinstance(value, Expr):
            code = [value._evaluate] if value.runs_python else []
            return f"{value} {value.kernel} {self.of([value.arguments, *value.parts, *code])}"
        named = _fields(value)
        if not _is_ours(value) and not dataclasses.is_dataclass(value):
            named = ((name, part) for name, part in named if isinstance(part, _PLAIN))
        parts = [(name, self.of(part)) for name, part in named]
        return f"{kind.__module__}.{kind.__qualname__} {parts}"


def _is_code(value: object) -> bool:
    return isinstance(value, (types.FunctionType, staticmethod, classmethod, property, *_PLAIN))


def _table(table: Any) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write(table)
    return bytes(sink.getvalue())


def _variables(function: object) -> Iterator[tuple[str, object]]:
    """Yield what a function uses besides its arguments: values of functions around it, and plain
    values and functions of its own module."""
    if not isinstance(function, types.FunctionType):
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=False):
        try:
            yield name, cell.cell_contents
        except ValueError:  # nothing is in it yet
            continue
    for name in sorted(_names_in(function.__code__)):
        value = function.__globals__.get(name)
        own = getattr(value, "__module__", None) == function.__module__
        if name in function.__globals__ and (_is_plain(value) or (own and _is_code_object(value))):
            yield name, value


def _names_in(code: types.CodeType) -> set[str]:
    inner = (_names_in(part) for part in code.co_consts if isinstance(part, types.CodeType))
    return set(code.co_names).union(*inner)


def _is_plain(value: object) -> bool:
    if isinstance(value, (list, tuple, set, frozenset)):
        return all(map(_is_plain, value))
    if isinstance(value, dict):
        return all(_is_plain(key) and _is_plain(item) for key, item in value.items())
    return isinstance(value, _PLAIN)


def _is_code_object(value: object) -> bool:
    return isinstance(value, (types.FunctionType, type))
