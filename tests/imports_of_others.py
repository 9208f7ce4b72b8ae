"""What other tests have imported, which a session would import once more for nothing.

Servers that fork workers import what the driver uses. A test shares its process with hundreds of
others, and so would have its servers import NumPy, torch and Dask for tests that ran before: half
a second of a processor each time, or several. A session should find what its own test uses.
"""

from __future__ import annotations

import functools
import re
import sys
from pathlib import Path
from types import ModuleType

_LIBRARIES = ("data", "train", "tune", "predict", "serve")
_UNDER_LIBRARIES = {"numpy", "pandas", "polars", "pyarrow", "PIL"}  # which they use unasked


def without_imports_of_others(test: ModuleType, modules: tuple[str, ...]) -> tuple[str, ...]:
    """Return the modules that a test of this module may use: those that its file mentions, or
    the files of helpers that it imports from, and those that are not imported yet."""
    source = _text_around(test)
    return tuple(name for name in modules if name not in sys.modules or _mentions(source, name))


@functools.cache
def _mentions(source: str, module: str) -> bool:
    """Return whether a text has the name of a package, or of the library that a module is in."""
    if module in _UNDER_LIBRARIES and any(_has_library(source, name) for name in _LIBRARIES):
        return True
    package, _, rest = module.partition(".")
    if package == "skate":
        library, _, rest = rest.partition(".")
        if library in _LIBRARIES:
            return _has_library(source, library)
        package = rest  # skate.util.dask
    return re.search(rf"\b{package}\b", source) is not None


def _has_library(source: str, name: str) -> bool:
    imported = rf"\bskate\.{name}\b|\bfrom skate import [^\n]*\b{name}\b"
    return re.search(imported, source) is not None


@functools.cache
def _text_around(test: ModuleType) -> str:
    """Return the source of a module and of the modules of tests whose names it has."""
    homes = [getattr(value, "__module__", None) for value in vars(test).values()]
    helpers = {sys.modules.get(str(home)) for home in homes if str(home).startswith("tests.")}
    files = [getattr(module, "__file__", None) for module in {test, *helpers}]
    return "\n".join(Path(file).read_text() for file in files if file)
