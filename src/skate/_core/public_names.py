"""Public names: found in their homes when they are first used, by one table (`skate._paths`).

    skate/data/__init__.py   __getattr__, __dir__ = lazy_names(__name__)
    skate.tune.suggest       no file: `PathFinder` makes the module when somebody imports it

Both look into the same table, and it is loaded with the first name that is looked up: `import
skate` pays for neither the names nor the table.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any

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
        setattr(sys.modules[module], name, value)
        return value

    def list_names() -> list[str]:
        from skate._paths import homes

        return sorted({*vars(sys.modules[module]), *homes(module)})

    return find, list_names


def _attribute(home: str, name: str) -> Any:
    from importlib import import_module

    if name:
        return getattr(import_module(home), name)
    return import_module(home)


def _module_below(module: str, name: str) -> ModuleType:
    """Return the module `name` of the package `module`, or raise an AttributeError."""
    if not name.startswith("_"):
        from importlib import import_module
        from importlib.util import find_spec

        path = f"{module}.{name}"
        if hasattr(sys.modules[module], "__path__") and find_spec(path) is not None:
            return import_module(path)
    raise AttributeError(_missing(module, name), name=name, obj=sys.modules[module])


def _missing(module: str, name: str) -> str:
    from skate._core.former_names import no_such_name
    from skate._paths import homes

    return no_such_name(module.partition(".")[2], name, homes(module))


class PathFinder:
    """Imports modules that are in the table and have no file: older spellings, Ray's aliases.

    It is the last of the finders, so that it is asked for what has no file only.
    """

    @classmethod
    def find_spec(cls, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """Return how to make the module `name`, if it is in the table."""
        if not name.startswith("skate."):
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
