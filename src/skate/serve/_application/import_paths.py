"""What an import path such as "module:name" or "module.name" stands for."""

from __future__ import annotations

import os
import pkgutil
import sys
from importlib import import_module
from typing import Any

_MAX_SHOWN_NAMES = 20  # names in a message


class NothingThereError(ValueError):
    """An import path leads nowhere."""


def import_attribute(path: str) -> Any:
    """Return the object at "package.module:name", or "package.module.name"."""
    module, separator, names = path.partition(":")
    if not separator:
        module, _, names = path.rpartition(".")
    if not module or not names:
        raise ValueError(f'an import path looks like "module:name"; got {path!r}')
    found: Any = _import(module, path)
    for name in names.split("."):
        if not hasattr(found, name):
            raise NothingThereError(_no_name(path, name, found))
        found = getattr(found, name)
    return found


def call_by_path(path: str) -> Any:
    """Return what the function at an import path returns.

    Raises:
        ValueError: If it cannot be imported.
        TypeError: If it is no function.
    """
    try:
        function = import_attribute(path)
    except (ImportError, ValueError) as error:
        raise ValueError(f"the function {path} cannot be imported: {error}") from error
    if not callable(function):
        raise TypeError(f"{path} is not callable: it is {function!r}")
    return function()


def _import(module: str, path: str) -> object:
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # the module is there, and one that it needs is not
        raise NothingThereError(_no_module(path, error.name)) from None


def _no_name(path: str, name: str, found: object) -> str:
    where = getattr(found, "__file__", None) or repr(found)
    there = [other for other in vars(found) if not other.startswith("_")]
    return f"{path}: there is no {name!r} in {where}; it has {_listed(there)}"


def _no_module(path: str, name: str) -> str:
    folder = os.path.abspath(sys.path[0] if sys.path else "")
    there = sorted(info.name for info in pkgutil.iter_modules([folder]))
    return (
        f"{path}: No module named {name!r} is installed, or in {folder}, which has "
        f"{_listed(there)}"
    )


def _listed(names: list[str]) -> str:
    more = ["..."] if len(names) > _MAX_SHOWN_NAMES else []
    return ", ".join(names[:_MAX_SHOWN_NAMES] + more) or "none"
