"""Which Keras a worker trains with: Keras 2, unless the loop brings Keras 3 along."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import cloudpickle
import pytest

from skate.train._workers.worker import TrainWorker
from skate.train.tensorflow import _keras_choice
from skate.train.tensorflow._keras_choice import TensorflowWorker, explained, modules_of


@pytest.fixture
def keras(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType, type]:
    """What stands for Keras 3: a module, one inside, and a class of it."""
    package, layers = ModuleType("keras"), ModuleType("keras.layers")
    dense = type("Dense", (), {"__module__": "keras.layers"})
    layers.Dense = dense
    monkeypatch.setitem(sys.modules, "keras", package)
    monkeypatch.setitem(sys.modules, "keras.layers", layers)
    return package, layers, dense


def pickled(loop: Any) -> bytes:
    found: bytes = cloudpickle.dumps((loop, {}))
    return found


def test_the_modules_that_a_function_brings_along() -> None:
    first, second = json, json

    def loop() -> Any:
        return first, second, Path

    assert {"json", Path.__module__} <= modules_of(pickled(loop))


def test_a_name_is_no_module() -> None:
    def loop(tf: Any) -> Any:
        return tf.keras.layers, "keras.layers"

    assert not any("keras" in name for name in modules_of(pickled(loop)))


def refers_to(kept: Any) -> Any:
    return lambda: kept


@pytest.mark.parametrize(("brought", "switches"), [(0, 0), (1, 0), (2, 0), (None, 1)])
def test_a_loop_that_brings_keras_3_keeps_it(
    keras: tuple[Any, ...], monkeypatch: pytest.MonkeyPatch, brought: int | None, switches: int
) -> None:
    kept = json if brought is None else keras[brought]
    calls: list[None] = []
    monkeypatch.setattr(_keras_choice, "prefer_keras_2", lambda: calls.append(None))
    monkeypatch.setattr(TrainWorker, "prepare", lambda *_: None)
    job: Any = SimpleNamespace(loop=pickled((refers_to(kept), "keras")))
    TensorflowWorker().prepare(job, {})
    assert len(calls) == switches


@pytest.mark.parametrize("text", ["module 'tf_keras' has no attribute 'ops'", "something else"])
def test_an_error_about_keras_says_where_the_choice_is_made(text: str) -> None:
    with pytest.raises(AttributeError) as caught, explained():
        raise AttributeError(text)
    notes = "".join(getattr(caught.value, "__notes__", ()))
    expected = "keras" in text and hasattr(caught.value, "add_note")
    assert ("TF_USE_LEGACY_KERAS" in notes) == expected
