"""Everything public that has a docstring, by the modules that the reference shows."""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Iterator
from enum import Enum
from typing import Any

from tests.docs.pages import ROOT

MODULES = [
    name
    for page in sorted((ROOT / "docs" / "reference").glob("*.md"))
    for name in re.findall(r"^::: (\S+)", page.read_text(), re.MULTILINE)
]


def documented(module: str) -> Iterator[tuple[str, Any]]:
    """Yield the classes and functions of a module, and the methods of classes, by their names."""
    offered = importlib.import_module(module)
    for name in getattr(offered, "__all__", None) or vars(offered):
        thing = getattr(offered, name)
        if name[0] == "_" or not str(getattr(thing, "__module__", "")).startswith("skate"):
            continue
        if not hasattr(offered, "__all__") and thing.__module__ != module:
            continue
        if inspect.isclass(thing):
            yield f"{module}.{name}", thing
            yield from ((f"{module}.{name}.{key}", value) for key, value in _methods(thing))
        elif inspect.isfunction(thing):
            yield f"{module}.{name}", thing


def _methods(cls: type) -> Iterator[tuple[str, Any]]:
    for name in dir(cls):
        raw = inspect.getattr_static(cls, name)
        function = getattr(raw, "__func__", raw)
        if name[0] == "_" or not inspect.isfunction(function):
            continue
        if function.__module__.startswith("skate"):
            yield name, function


def parameters(thing: Any) -> list[str]:
    """Return the names by which a caller gives arguments; none for `*args` and `**kwargs`."""
    if inspect.isclass(thing) and issubclass(thing, Enum):
        return []  # the machinery's: nobody makes members
    try:
        found = inspect.signature(thing).parameters.values()
    except (TypeError, ValueError):
        return []
    collecting = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [
        parameter.name
        for parameter in found
        if parameter.name not in ("self", "cls")
        and parameter.name[0] != "_"
        and parameter.kind not in collecting
    ]
