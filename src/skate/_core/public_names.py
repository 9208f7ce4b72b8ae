"""Public names: found in their homes when they are first used, by one table (`skate._paths`).

    skate/data/__init__.py   __getattr__, __dir__ = lazy_names(__name__)
    skate/util/__init__.py   name_publicly(__name__), where names are imported at once
    skate.tune.suggest       no file: `PathFinder` makes the module when somebody imports it

Both look into the same table, and it is loaded with the first name that is looked up: `import
skate` pays for neither the names nor the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import TYPE_CHECKING, Any, ForwardRef

if TYPE_CHECKING:
    from importlib.machinery import ModuleSpec


def lazy_names(module: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return `__getattr__` and `__dir__` for a module whose names the table has.

    What is found stays in the module, so that it is looked up once. Modules below this one are
    found as attributes too, whether they were imported or not.
    """

    def find(name: str) -> Any:
        from skate._paths import homes

        home = homes(module).get(name)
        value = _module_below(module, name) if home is None else _attribute(*home)
        _name_publicly(module, name, value)
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        from skate._paths import homes

        return sorted({*vars(sys.modules[module]), *homes(module)})

    return find, list_names


def _attribute(home: str, name: str) -> Any:
    from importlib import import_module

    module = import_module(home)
    return getattr(module, name) if name else module


def _module_below(module: str, name: str) -> ModuleType:
    """Return the module `name` of the package `module`, or raise an AttributeError."""
    if not name.startswith("_"):
        from importlib import import_module
        from importlib.util import find_spec

        path = f"{module}.{name}"
        if hasattr(sys.modules[module], "__path__") and find_spec(path) is not None:
            return import_module(path)
    # Without the object, as Python would add a suggestion of its own to ours.
    raise AttributeError(_missing(module, name), name=name, obj=None)


def _missing(module: str, name: str) -> str:
    from skate._core.former_names import no_such_name
    from skate._paths import homes

    known = [*homes(module), *(each for each in vars(sys.modules[module]) if each[0] != "_")]
    return no_such_name(module.partition(".")[2], name, known)


def name_publicly(path: str, *things: type) -> None:
    """Let classes and functions say that they are of the public module `path`.

    `help`, `repr`, tracebacks and pickles then name `skate.train.Checkpoint`, and not the private
    module where it is written. What has a public path already keeps it.

    Args:
        path: A public module that is loaded, and has the things.
        things: What to name; by default, all that the module offers.
    """
    scope = vars(sys.modules[path])
    named: dict[str, Any] = {thing.__name__: thing for thing in things}
    for name, thing in (named or {name: scope.get(name) for name in scope["__all__"]}).items():
        _name_publicly(path, name, thing)


def _name_publicly(path: str, name: str, thing: object) -> None:
    if not isinstance(thing, (type, FunctionType)) or thing.__qualname__ != name:
        return  # by another name than its own it could not be found there
    home = thing.__module__
    if home.startswith("skate.") and "._" in home:
        if isinstance(thing, type):
            _keep_scope(thing, home)
        thing.__module__ = path


def _keep_scope(cls: type, home: str) -> None:
    """Let the annotations of a class be looked up where it is written, and no other source be
    taken for its own."""
    notes = vars(cls).get("__annotations__", {})
    for name, note in notes.items():
        if isinstance(note, str):
            notes[name] = ForwardRef(note, is_argument=False, module=home, is_class=True)
    if "__firstlineno__" in vars(cls):  # since Python 3.13: a line of another file than `path`'s
        delattr(cls, "__firstlineno__")


class PathFinder:
    """Imports modules that are in the table and have no file: older spellings, Ray's aliases.

    It is the last of the finders, so that it is asked for what has no file only. Where that is a
    package which a library of ours imports, it says what installs it.
    """

    @classmethod
    def find_spec(cls, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        """Return how to make the module `name`, if it is in the table."""
        if not name.startswith("skate."):
            from skate._core.optional_imports import check_library_import

            check_library_import(name)
            return None
        from importlib.machinery import ModuleSpec

        from skate._paths import is_module, is_package

        if not is_module(name):
            return None
        loader: Any = cls
        return ModuleSpec(name, loader, is_package=is_package(name))

    @staticmethod
    def create_module(spec: ModuleSpec) -> ModuleType | None:
        """Leave it to the import system."""

    @staticmethod
    def exec_module(module: ModuleType) -> None:
        """Give the module its names, which are looked up when they are used."""
        from skate._paths import FORMER_MODULES, describe, homes

        name, names = module.__name__, vars(module)
        names["__doc__"] = describe(name)
        if current := FORMER_MODULES.get(name):
            names["__getattr__"] = lambda wanted: _attribute(current, wanted)
        else:
            names["__all__"] = sorted(homes(name))
            names["__getattr__"], names["__dir__"] = lazy_names(name)


def install_finder() -> None:
    """Let modules be imported that only the table has; once for each process."""
    if PathFinder not in sys.meta_path:
        sys.meta_path.append(PathFinder)
