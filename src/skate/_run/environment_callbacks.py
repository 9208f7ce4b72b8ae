"""Callbacks that an environment variable names, for every run or search of a program."""

from __future__ import annotations

import importlib
import os
from typing import Any

from skate._run.callbacks import Callback, UserCallback

TRAIN_CALLBACKS = "RAY_TRAIN_CALLBACKS"
TUNE_CALLBACKS = "RAY_TUNE_CALLBACKS"


def callbacks_for_training() -> list[Any]:
    """Make the callbacks that RAY_TRAIN_CALLBACKS names."""
    return _named(TRAIN_CALLBACKS, UserCallback, Callback)


def callbacks_for_tuning() -> list[Any]:
    """Make the callbacks that RAY_TUNE_CALLBACKS names."""
    return _named(TUNE_CALLBACKS, Callback)


def _named(variable: str, *kinds: type) -> list[Any]:
    """Make an instance of each class of a list such as `package.module.Class,package.Other`."""
    paths = (part.strip() for part in os.environ.get(variable, "").split(","))
    return [_made(path, variable, kinds) for path in paths if path]


def _made(path: str, variable: str, kinds: tuple[type, ...]) -> Any:
    try:
        module, separator, name = path.rpartition(".")
        if not separator:
            raise ValueError(f"{path!r} has no module: write package.module.Class")
        found = getattr(importlib.import_module(module), name)
        if not issubclass(found, kinds):
            allowed = " or ".join(kind.__name__ for kind in kinds)
            raise TypeError(f"{found!r} is no subclass of {allowed}")
        return found()
    except (ImportError, AttributeError, ValueError, TypeError) as error:
        raise ValueError(
            f"Failed to import callback from {path!r}, which {variable} names: {error}"
        ) from error
