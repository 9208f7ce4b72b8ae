"""TensorFlow and processes: which fork, who has which part of the data, and what travels where
TensorFlow 1's behaviour is used.

A class that uses the global name `tf` makes its worker import TensorFlow, but the driver's
`tf.disable_v2_behavior()` is no part of the class: so the module itself asks for it. And what
`model.fit` returns, the history, holds the model, which is no value outside its session.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import suppress
from importlib import import_module
from types import ModuleType
from typing import Any

from skate._core.optional_imports import is_installed, try_import

LEGACY_KERAS = "TF_USE_LEGACY_KERAS"
_KERAS_2, _KERAS_3 = "tf_keras.api._v2.keras", "keras._tf_keras.keras"  # what `tf.keras` may be
_PARTS_OF_TENSORFLOW = ("tensorflow.", f"{_KERAS_3}.")


def prefer_keras_2() -> None:
    """Let `tf.keras` be Keras 2 in this process, if it is installed and nobody has decided.

    TF_USE_LEGACY_KERAS=0 keeps Keras 3.
    """
    if not is_installed("tf_keras"):
        return
    os.environ.setdefault(LEGACY_KERAS, "1")
    tensorflow = sys.modules.get("tensorflow")
    if tensorflow is None or not is_keras_2():
        return
    # TensorFlow was imported before the variable was set. Its attribute `keras` looks at the
    # variable when it is first used; `import tensorflow.keras` goes by the path.
    import importlib.util

    found = importlib.util.find_spec("tf_keras.api._v2")
    assert found is not None
    for folder in found.submodule_search_locations or ():
        if folder not in tensorflow.__path__:
            tensorflow.__path__.insert(0, folder)


def keras_in_use() -> Any:
    """Return the Keras that `tf.keras` is here. Keras 3 does without TensorFlow."""
    if is_keras_2() and is_installed("tf_keras"):
        return import_module("tf_keras")
    if is_installed("keras"):
        return import_module("keras")
    return try_import("tensorflow", "tensorflow").keras


def is_keras_2() -> bool:
    """Return whether it was decided here that `tf.keras` is Keras 2."""
    return os.environ.get(LEGACY_KERAS) in ("1", "true", "True")


def unsafe_keras_3() -> str | None:
    """Return the version of the Keras 3 that is loaded, if models of others can run code in spite
    of its `safe_mode`: before 3.12.1 (CVE-2025-1550, -8747, -9905, -9906, -49655 and
    CVE-2026-1462), and before 3.13.2 (the last one)."""
    version = str(getattr(sys.modules.get("keras"), "__version__", ""))
    number = tuple(map(int, re.findall(r"\d+", version)[:3]))
    is_unsafe = (3,) <= number < (3, 12, 1) or (3, 13) <= number < (3, 13, 2)
    return version if is_unsafe else None


def tensorflow_runs() -> bool:
    """Return whether its runtime has started here: with the first operation or session, not with
    the import. Forks of this process would hang in it."""
    return _is_initialised() or any(name.startswith("tf_") for name in _names_of_threads())


def _is_initialised() -> bool:
    module = sys.modules.get("tensorflow.python.eager.context")
    context = getattr(module, "_context", None)
    return context is not None and bool(context._initialized)


def _names_of_threads() -> Iterator[str]:
    """Yield those of all threads, also of such that no Python has started; none without /proc."""
    folder = "/proc/self/task"
    for number in os.listdir(folder) if os.path.isdir(folder) else ():
        with suppress(OSError), open(f"{folder}/{number}/comm") as file:  # it may have ended
            yield file.read()


def unsplit(dataset: Any) -> Any:
    """Return a worker's tf.data.Dataset, of which TensorFlow takes no part: it is one."""
    tf = import_module("tensorflow")
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.OFF
    return dataset.with_options(options)


def is_v1() -> bool:
    """Return whether TensorFlow is in use here, with its version 2 behaviour switched off."""
    modes = sys.modules.get("tensorflow.python.tf2")
    return modes is not None and not modes.enabled()


def reduce_v1(value: object) -> Any:
    """Return how to pickle what needs care where `is_v1()`; None for all else."""
    if isinstance(value, ModuleType) and f"{value.__name__}.".startswith(_PARTS_OF_TENSORFLOW):
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
        prefer_keras_2()  # Keras 3 takes no optimizers of TensorFlow 1
    return import_module(name.replace(_KERAS_3, _KERAS_2) if is_keras_2() else name)


def _rebuild_history(kind: Any, state: dict[str, object]) -> Any:
    history = kind()
    vars(history).update(state)
    return history
