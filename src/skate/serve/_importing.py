"""What an import path such as "module:name" or "module.name" stands for."""

from __future__ import annotations

from importlib import import_module
from typing import Any


def import_attribute(path: str) -> Any:
    """The object at "package.module:name", or "package.module.name"."""
    module, separator, names = path.partition(":")
    if not separator:
        module, _, names = path.rpartition(".")
    if not module or not names:
        raise ValueError(f'an import path looks like "module:name"; got {path!r}')
    found: Any = import_module(module)
    for name in names.split("."):
        found = getattr(found, name)
    return found
