"""Predictions by Keras models, on batches."""

from __future__ import annotations

import contextlib
import json
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
import tensorflow as tf
import tf_keras

from skate.predict import TensorflowPredictor
from skate.predict._batches import to_numpy


@tf_keras.saving.register_keras_serializable()
class Doubling(tf_keras.layers.Layer):  # type: ignore[misc]
    def call(self, inputs: Any) -> Any:
        return inputs * 2


def doubling() -> Any:
    layers = tf.keras.layers
    model = tf.keras.Sequential([layers.Input((1,)), layers.Dense(1)])
    model.set_weights([np.array([[2.0]]), np.array([0.0])])
    return model


def adding() -> Any:
    inputs = [tf.keras.layers.Input((1,), name=name) for name in "AB"]
    return tf.keras.Model(inputs=inputs, outputs=tf.keras.layers.Add()(inputs))


def named() -> Any:
    one = tf.keras.layers.Input((1,))
    return tf.keras.Model(inputs=one, outputs={"a": one, "b": one * 2})


def listed() -> Any:
    one = tf.keras.layers.Input((1,))
    return tf.keras.Model(inputs=one, outputs=[one, one])


ONES = np.array([[1.0], [2.0], [3.0]])


def test_one_column_is_a_tensor() -> None:
    predictor = TensorflowPredictor(doubling(), preprocessor=None)
    assert predictor.predict(ONES)["predictions"].tolist() == [[2], [4], [6]]
    frame = predictor.predict(pd.DataFrame({"x": list(ONES)}), dtype=tf.float32)
    assert np.ravel(list(frame["predictions"])).tolist() == [2, 4, 6]
    assert repr(predictor).startswith("TensorflowPredictor(model='sequential")


def test_several_columns_are_a_dictionary() -> None:
    predictor = TensorflowPredictor(adding())
    frame = pd.DataFrame({"A": list(ONES), "B": list(ONES)})
    assert np.ravel(list(predictor.predict(frame)["predictions"])).tolist() == [2, 4, 6]


def test_outputs_by_name() -> None:
    predictions = TensorflowPredictor(named()).predict(ONES)
    assert {name: value.ravel().tolist() for name, value in predictions.items()} == {
        "a": [1, 2, 3],
        "b": [2, 4, 6],
    }


def test_other_outputs_need_a_class_of_their_own() -> None:
    class Numbered(TensorflowPredictor):
        def call_model(self, inputs: Any) -> Any:
            return {str(i): output for i, output in enumerate(super().call_model(inputs))}

    with pytest.raises(ValueError, match="derive from TensorflowPredictor"):
        TensorflowPredictor(listed()).predict(ONES)
    assert list(Numbered(listed()).predict(ONES)) == ["0", "1"]


def test_types_by_column_hold_for_a_single_column_too() -> None:
    predictor = TensorflowPredictor(lambda inputs: inputs)
    found = predictor.predict({"a": ONES.astype(np.int64)}, dtype={"a": tf.float16})
    assert found["predictions"].dtype == np.float16
    with pytest.raises(ValueError, match="'b'"):
        predictor.predict({"a": ONES}, dtype={"b": tf.float16})


@pytest.mark.parametrize(
    "batch",
    [
        pd.DataFrame({"a": [[1.0], [2.0], [3.0]]}),
        pa.table({"a": [[1.0], [2.0], [3.0]]}),
        {"a": [np.array([1.0]), np.array([2.0]), np.array([3.0])]},
    ],
    ids=["frame", "table", "dictionary"],
)
def test_lists_of_equal_length_are_one_tensor(batch: Any) -> None:
    predicted = to_numpy(TensorflowPredictor(doubling()).predict(batch))
    assert predicted["predictions"].ravel().tolist() == [2, 4, 6]


def test_a_definition_and_weights() -> None:
    weights = [np.array([[3.0]]), np.array([1.0])]
    predictor = TensorflowPredictor(model_definition=doubling, model_weights=weights)
    assert predictor.predict(ONES)["predictions"].ravel().tolist() == [4, 7, 10]
    with pytest.raises(ValueError, match="one of them"):
        TensorflowPredictor()
    with pytest.raises(ValueError, match="no GPU"):
        TensorflowPredictor(doubling(), use_gpu=True)


@pytest.mark.filterwarnings("ignore::UserWarning")  # about formats
@pytest.mark.parametrize("name", ["model.h5", "model.keras", "."])
def test_bytecode_in_models_of_others_does_not_run(name: str, tmp_path: Path) -> None:
    from skate.exceptions import UntrustedPickleError
    from skate.train.tensorflow import TensorflowCheckpoint

    marker = tmp_path / "it-ran"
    place = str(marker)
    folder = tmp_path / "theirs"
    folder.mkdir()
    layers = tf_keras.layers
    touching = layers.Lambda(lambda x: (open(place, "w").close(), x)[1])  # type: ignore[func-returns-value]
    model = tf_keras.Sequential([layers.Input((1,)), touching])
    model.save(folder / name, save_format="tf" if name == "." else None)
    marker.unlink()
    checkpoint = TensorflowCheckpoint.from_directory(folder)
    checkpoint.set_metadata({"_keras": "tf_keras", "_model_filename": name})
    with pytest.raises((UntrustedPickleError, ValueError), match="Lambda"):
        checkpoint.get_model()
    assert not marker.exists()
    checkpoint.get_model(allow_pickle=True)
    assert marker.exists()


@pytest.mark.filterwarnings("ignore:__array__ implementation")  # Keras 3 with NumPy 2
@pytest.mark.parametrize("name", ["model.h5", "model.keras"])
@pytest.mark.parametrize("version", ["3.12.0", "3.12.1", "3.13.1", "3.13.2"])
def test_an_old_keras_3_reads_own_models_only(
    name: str, version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skate._run.own_files import signatures_of_models
    from skate.exceptions import UntrustedPickleError
    from skate.train.tensorflow import TensorflowCheckpoint

    own = TensorflowCheckpoint.from_model(doubling())
    monkeypatch.setattr("keras.__version__", version)
    is_old = version in ("3.12.0", "3.13.1")
    refused = pytest.raises(UntrustedPickleError, match=rf"Keras {version} has .*\[tensorflow\]")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about formats
        doubling().save(tmp_path / name)
    assert bool(signatures_of_models(str(tmp_path), 0.0)) == is_old  # where a loop reports it
    theirs = TensorflowCheckpoint.from_directory(tmp_path)
    with refused if is_old else contextlib.nullcontext():
        theirs.get_model()
    with refused if is_old else contextlib.nullcontext():
        own.get_model()
    assert theirs.get_model(allow_pickle=True).predict(ONES).ravel().tolist() == [2, 4, 6]
    own = TensorflowCheckpoint.from_model(doubling())
    assert own.get_model().predict(ONES).ravel().tolist() == [2, 4, 6]


def _import(described: dict[str, Any], marker: str) -> None:
    """Have the model be of a class in a module that nobody has imported."""
    described |= dict.fromkeys(["class_name", "registered_name"], "Theirs")
    described["module"] = "skate_code_of_others"


def _run_a_function(described: dict[str, Any], marker: str) -> None:
    """Have a layer be any function of Python, called with a constant: no bytecode is needed."""
    layer = described["config"]["layers"][1]
    layer |= {"class_name": "Lambda", "module": "keras.layers", "registered_name": None}
    layer["config"] |= {
        "function": {"module": "os", "class_name": "function", "config": "system"},
        "function_type": "function", "module": "os", "arguments": {},
        "output_shape": None, "output_shape_type": "raw", "output_shape_module": None,
    }  # fmt: skip
    layer["inbound_nodes"] = [[["_CONSTANT_VALUE", -1, f"touch {marker}", {}]]]


def _write_a_file(described: dict[str, Any], marker: str) -> None:
    """Have an operation be one that writes a file while the model is read."""
    layer = described["config"]["layers"][1]
    layer["config"]["function"] = "io.write_file"
    layer["inbound_nodes"] = [["_CONSTANT_VALUE", -1, marker, {"contents": "theirs"}]]


@pytest.mark.filterwarnings("ignore::UserWarning")  # about formats
@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("model.keras", _import),
        ("model.keras", _run_a_function),
        ("model.keras", _write_a_file),
        ("model.h5", _write_a_file),
    ],
)
def test_what_a_model_of_others_names_does_not_run(
    name: str, change: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from skate.exceptions import UntrustedPickleError
    from skate.train.tensorflow import TensorflowCheckpoint

    marker = tmp_path / "it-ran"
    module = tmp_path / "skate_code_of_others.py"
    module.write_text(f"open({str(marker)!r}, 'w').close()")
    monkeypatch.syspath_prepend(tmp_path)
    checkpoint = TensorflowCheckpoint.from_directory(tmp_path / "theirs")
    (tmp_path / "theirs").mkdir()
    one = tf_keras.layers.Input((1,))
    model = tf_keras.Model(one, tf_keras.layers.Dense(1)(tf.math.abs(one)))
    model.save(tmp_path / "theirs" / name)
    _describe_anew(tmp_path / "theirs" / name, lambda said: change(said, str(marker)))
    checkpoint.set_metadata({"_keras": "tf_keras", "_model_filename": name})
    with pytest.raises(UntrustedPickleError, match=r"allow_pickle=True"):
        checkpoint.get_model()
    assert not marker.exists()
    with contextlib.suppress(Exception):  # no whole model, but read it was
        checkpoint.get_model(allow_pickle=True)
    assert marker.exists()


def _describe_anew(path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    """Change what a file says of its model."""
    import h5py  # type: ignore[import-untyped]

    if path.suffix == ".h5":
        with h5py.File(path, "r+") as file:
            described = json.loads(file.attrs["model_config"])
            change(described)
            file.attrs["model_config"] = json.dumps(described)
        return
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    described = json.loads(parts["config.json"])
    change(described)
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in (parts | {"config.json": json.dumps(described).encode()}).items():
            archive.writestr(name, content)


@pytest.mark.filterwarnings("ignore::UserWarning")  # about formats
@pytest.mark.parametrize("name", ["model.h5", "model.keras", "."])
def test_models_without_bytecode_need_no_consent(name: str, tmp_path: Path) -> None:
    from skate.train.tensorflow import TensorflowCheckpoint

    layers = tf_keras.layers
    one = layers.Input((1,))
    twice = tf.concat([tf.reshape(one + 1.0, (-1, 1)), tf.nn.relu(one)], 1)[:, :1]
    model = tf_keras.Model(one, Doubling()(layers.Dense(1, name="lambda")(twice)))
    model.compile(loss="mse", optimizer="adam", metrics=["mae"])
    model.save(tmp_path / name, save_format="tf" if name == "." else None)
    checkpoint = TensorflowCheckpoint.from_directory(tmp_path)
    checkpoint.set_metadata({"_keras": "tf_keras", "_model_filename": name})
    assert np.array_equal(checkpoint.get_model().get_weights()[0], model.get_weights()[0])
