"""Keras models in checkpoints."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from skate._imports import try_import
from skate._run.checkpoint import MODEL_KEY, Checkpoint
from skate._run.folders import TemporaryFolder

MODEL_FILE = "model.keras"
KERAS_KEY = "_keras"  # in the metadata: the package that wrote the model

AnyTensorflowCheckpoint = TypeVar("AnyTensorflowCheckpoint", bound="TensorflowCheckpoint")


class TensorflowCheckpoint(Checkpoint):
    """A checkpoint with a Keras model, or a model's weights."""

    MODEL_FILENAME_KEY = "_model_filename"

    @classmethod
    def from_model(
        cls: type[AnyTensorflowCheckpoint], model: Any, *, preprocessor: Any = None
    ) -> AnyTensorflowCheckpoint:
        """One that holds a whole model."""
        folder = TemporaryFolder("checkpoint_")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # about formats; the user chose none
            model.save(os.path.join(folder.path, MODEL_FILE))
        package = type(model).__module__.partition(".")[0]
        written_by = package if package in ("keras", "tf_keras") else _own_keras(model)
        return cls._of_folder(folder, MODEL_FILE, preprocessor, {KERAS_KEY: written_by})

    @classmethod
    def from_h5(
        cls: type[AnyTensorflowCheckpoint],
        file_path: str | os.PathLike[str],
        *,
        preprocessor: Any = None,
    ) -> AnyTensorflowCheckpoint:
        """One that holds a copy of what `model.save("….h5")` wrote."""
        path = os.fspath(file_path)
        if not (os.path.isfile(path) and path.endswith(".h5")):
            raise ValueError(f"from_h5 takes a file whose name ends with .h5; got {path!r}")
        folder = TemporaryFolder("checkpoint_")
        shutil.copy(path, folder.path)
        return cls._of_folder(folder, os.path.basename(path), preprocessor, {})

    @classmethod
    def from_saved_model(
        cls: type[AnyTensorflowCheckpoint],
        dir_path: str | os.PathLike[str],
        *,
        preprocessor: Any = None,
    ) -> AnyTensorflowCheckpoint:
        """One that holds a copy of a folder in TensorFlow's SavedModel format."""
        path = os.fspath(dir_path)
        if not os.path.isdir(path):
            raise ValueError(f"from_saved_model takes a folder; got {path!r}")
        folder = TemporaryFolder("checkpoint_")
        shutil.copytree(path, folder.path, dirs_exist_ok=True)
        return cls._of_folder(folder, ".", preprocessor, {})

    @classmethod
    def _of_folder(
        cls: type[AnyTensorflowCheckpoint],
        folder: TemporaryFolder,
        name: str,
        preprocessor: Any,
        notes: dict[str, Any],
    ) -> AnyTensorflowCheckpoint:
        checkpoint = cls._in_temporary(folder)
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        checkpoint.update_metadata({cls.MODEL_FILENAME_KEY: name, **notes})
        return checkpoint

    def get_model(self, model: Callable[[], Any] | Any = None) -> Any:
        """The model; where only weights were saved, `model`, or what it builds, with these."""
        if self.get_internal_representation()[0] != "data_dict":
            with self.as_directory() as folder:
                name = self.get_metadata().get(self.MODEL_FILENAME_KEY) or _model_in(folder)
                if name is not None:
                    return self._loaded(os.path.join(folder, name))
        weights = self.get_model_weights()
        if not isinstance(weights, (list, tuple)):
            return weights  # a whole model
        if model is None:
            raise ValueError("the checkpoint holds only weights: give the model_definition")
        built = model if hasattr(model, "set_weights") and not isinstance(model, type) else model()
        built.set_weights(weights)
        return built

    def get_model_weights(self) -> Any:
        """What was saved as `model` of a dictionary: usually `model.get_weights()`."""
        data = self.to_dict()
        if MODEL_KEY not in data:
            raise ValueError(
                f"there is no model in this checkpoint: it has {sorted(map(str, data))}; save it "
                f"with TensorflowCheckpoint.from_model, or its weights as {MODEL_KEY!r}"
            )
        return data[MODEL_KEY]

    def _loaded(self, path: str) -> Any:
        tf = try_import("tensorflow", "tensorflow")
        # What Keras 2 wrote, because workers train with it, Keras 3 may not understand.
        if self.get_metadata().get(KERAS_KEY) == "tf_keras":
            return try_import("tf_keras", "tensorflow").models.load_model(path)
        return tf.keras.models.load_model(path)


def _own_keras(model: Any) -> str:
    """The Keras that a class of the user's is derived from."""
    names = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    return "tf_keras" if "tf_keras" in names else "keras"


def _model_in(folder: str) -> str | None:
    """The file, or the folder itself, that looks like a model."""
    names = sorted(os.listdir(folder))
    for ending in (".keras", ".h5"):
        for name in names:
            if name.endswith(ending) and not name.endswith(".weights.h5"):
                return name
    return "." if "saved_model.pb" in names else None
