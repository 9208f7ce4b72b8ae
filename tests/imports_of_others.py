"""What other tests have imported, which a session would import once more for nothing.

Servers that fork workers import what the driver uses. A test shares its process with hundreds of
others, and so would have its servers import torch, Lightning and Dask for tests that ran before:
seconds each time, a third of all that some tests took. A session should find what its own test
uses.
"""

from __future__ import annotations

import functools
import inspect
import sys
from types import ModuleType


def without_imports_of_others(test: ModuleType, modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modules that a test of this module may use: those that its file mentions, or
    the files of helpers that it imports from, and those that are not imported yet."""
    source = _text_around(test)
    return tuple(name for name in modules if name not in sys.modules or _mentions(source, name))


def _mentions(source: str, module: str) -> bool:
    """Return whether a text has a word of a module's path that says something."""
    words = {word for word in module.split(".") if word[0] != "_"} - {"skate", "util"}
    return any(word in source for word in words)


@functools.cache
def _text_around(test: ModuleType) -> str:
    """Return the source of a module and of the modules of tests whose names it has."""
    homes = {getattr(value, "__module__", None) or "" for value in vars(test).values()}
    helpers = {sys.modules[home] for home in homes if home.startswith("tests.")}
    return "\n".join(inspect.getsource(module) for module in {test, *helpers}).lower()
