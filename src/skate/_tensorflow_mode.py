"""TensorFlow and processes: which fork, and what travels where TensorFlow 1's behaviour is used.

A class that uses the global name `tf` makes its worker import TensorFlow, but the driver's
`tf.disable_v2_behavior()` is no part of the class: so the module itself asks for it. And what
`model.fit` returns, the history, holds the model, which is no value outside its session.
"""

from __future__ import annotations

import sys
from importlib import import_module
from types import ModuleType
from typing import Any


def tensorflow_runs() -> bool:
    """Whether its runtime has started here: with the first operation, not with the import. Forks
    of this process would hang in it."""
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    return context is not None and bool(context._initialized)


def is_v1() -> bool:
    """Whether TensorFlow is in use here, with its version 2 behaviour switched off."""
    modes = sys.modules.get("tensorflow.python.tf2")
    return modes is not None and not modes.enabled()


def reduce_v1(value: Any) -> Any:
    """How to pickle what needs care where `is_v1()`; None for all else."""
    if isinstance(value, ModuleType) and value.__name__.partition(".")[0] == "tensorflow":
        return import_as_v1, (value.__name__,)
    kind = type(value)
    if kind.__name__ == "History" and "keras" in kind.__module__:
        state = {name: item for name, item in vars(value).items() if "model" not in name}
        return _rebuild_history, (kind, state)
    return None


def import_as_v1(name: str) -> ModuleType:
    """Import a module of TensorFlow, with the behaviour of TensorFlow 1 from now on."""
    import logging

    v1 = import_module("tensorflow.compat.v1")
    if not is_v1():
        logger = logging.getLogger("tensorflow")
        level = logger.level
        logger.setLevel(logging.ERROR)  # the driver has been told that this is an old way
        try:
            v1.disable_v2_behavior()
        finally:
            logger.setLevel(level)
    return import_module(name)


def _rebuild_history(kind: Any, state: dict[str, Any]) -> Any:
    history = kind()
    vars(history).update(state)
    return history
