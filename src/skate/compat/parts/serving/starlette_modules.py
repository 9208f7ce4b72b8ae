"""`import starlette` and then `starlette.requests.Request`, as programs for Ray write it.

Ray imports these modules with its own; here they are imported when they are first looked for, as
they take longer than all else. Importing this module, as `import ray.serve` does, sees to that.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__: list[str] = []


def _load_on_demand() -> None:
    """Let the modules of starlette be found below it, if it is installed."""
    try:
        starlette: Any = import_module("starlette")
    except ImportError:
        return
    if not hasattr(starlette, "__getattr__"):
        starlette.__getattr__ = _find


def _find(name: str) -> object:
    module = f"starlette.{name}"
    problem = f"module 'starlette' has no attribute {name!r}"
    if name.startswith("__"):
        raise AttributeError(problem)
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != module:
            raise  # it needs one that is not installed
        raise AttributeError(problem) from None


_load_on_demand()
