"""Keras models in checkpoints."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeVar

from skate._core.optional_imports import is_installed, try_import
from skate._core.tensorflow_processes import is_keras_2
from skate._run.checkpoint import FILES_KEY, MODEL_KEY, Checkpoint
from skate._run.folders import TemporaryFolder, copy_tree
from skate._run.keras_models import KERAS_KEY, MODEL_FILENAME_KEY, model_checkpoint
from skate._run.links import check_links
from skate._run.pickles import is_allowed
from skate.train.tensorflow._code_in_models import check_no_code, check_safe_mode

if TYPE_CHECKING:
    import keras

    from skate.data.preprocessor import Preprocessor


AnyTensorflowCheckpoint = TypeVar("AnyTensorflowCheckpoint", bound="TensorflowCheckpoint")


class TensorflowCheckpoint(Checkpoint):
    """Hold a Keras model, or a model's weights.

    Args:
        path: The folder that they are in.
        filesystem: The Arrow file system that `path` is on, if not this machine's.
    """

    MODEL_FILENAME_KEY = MODEL_FILENAME_KEY

    @classmethod
    def from_model(
        cls: type[AnyTensorflowCheckpoint], model: Any, *, preprocessor: Preprocessor | None = None
    ) -> AnyTensorflowCheckpoint:
        """Make a checkpoint that holds a whole model.

        Args:
            model: The Keras model.
            preprocessor: A preprocessor to keep with it; None for none.
        """
        checkpoint = model_checkpoint(cls, model)
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        return checkpoint

    @classmethod
    def from_h5(
        cls: type[AnyTensorflowCheckpoint],
        file_path: str | os.PathLike[str],
        *,
        preprocessor: Preprocessor | None = None,
    ) -> AnyTensorflowCheckpoint:
        """Make a checkpoint that holds a copy of what `model.save("….h5")` wrote.

        Args:
            file_path: The file.
            preprocessor: A preprocessor to keep with it; None for none.

        Raises:
            ValueError: If its name does not end with .h5.
            FileNotFoundError: If there is no such file.
        """
        path = os.fspath(file_path)
        if not path.endswith(".h5"):
            raise ValueError(f"from_h5 takes a file whose name ends with .h5; got {path!r}")
        if not os.path.isfile(path):
            raise FileNotFoundError(f"there is no file {path!r}")
        folder = TemporaryFolder("checkpoint_")
        shutil.copy(path, folder.path)
        return cls._of_folder(folder, os.path.basename(path), preprocessor)

    @classmethod
    def from_saved_model(
        cls: type[AnyTensorflowCheckpoint],
        dir_path: str | os.PathLike[str],
        *,
        preprocessor: Preprocessor | None = None,
    ) -> AnyTensorflowCheckpoint:
        """Make a checkpoint that holds a copy of a folder in TensorFlow's SavedModel format.

        Args:
            dir_path: The folder.
            preprocessor: A preprocessor to keep with it; None for none.

        Raises:
            ValueError: If there is no such folder, or if it has a link that leads out of it
                (`OutsideLinkError`).
        """
        path = os.fspath(dir_path)
        if not os.path.isdir(path):
            raise ValueError(f"from_saved_model takes a folder; got {path!r}")
        check_links(path)
        folder = TemporaryFolder("checkpoint_")
        copy_tree(path, folder.path)
        return cls._of_folder(folder, ".", preprocessor)

    @classmethod
    def _of_folder(
        cls: type[AnyTensorflowCheckpoint],
        folder: TemporaryFolder,
        name: str,
        preprocessor: Preprocessor | None,
    ) -> AnyTensorflowCheckpoint:
        checkpoint = cls._in_temporary(folder)
        if preprocessor is not None:
            checkpoint.set_preprocessor(preprocessor)
        checkpoint.update_metadata({cls.MODEL_FILENAME_KEY: name})
        return checkpoint

    def get_model(
        self, model: Callable[[], Any] | Any = None, *, allow_pickle: bool = False
    ) -> keras.Model:
        """Return the model; where only weights were saved, `model` with these weights.

        Args:
            model: Gets the weights, or builds what gets them, if there are only weights.
            allow_pickle: Whether to read a dict that was not written by this user on this
                machine, or a model with Lambda layers, or of Keras 2 with classes that are not
                registered, which runs whatever code it contains.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        allow_pickle = allow_pickle or self._allow_pickle
        if self._holds_files():
            with self.as_directory() as folder:
                found = self._read(folder, model, allow_pickle)
            if found is not None:
                return found
        weights = self.get_model_weights(allow_pickle=allow_pickle)
        if not isinstance(weights, (list, tuple)):
            return weights  # a whole model
        built = _built(model)
        built.set_weights(weights)
        return built

    def get_model_weights(self, *, allow_pickle: bool = False) -> keras.Model:
        """Return what was saved as `model` of a dictionary: usually `model.get_weights()`.

        Args:
            allow_pickle: Whether to read a dict that was not written by this user on this
                machine, which runs whatever code it contains.

        Raises:
            UntrustedPickleError: If it was written elsewhere, and that is not allowed.
        """
        data = self.to_dict(allow_pickle=allow_pickle)
        if MODEL_KEY not in data:
            raise ValueError(
                f"there is no model in this checkpoint: it has {self._content(data)}; save it "
                f"with TensorflowCheckpoint.from_model, or its weights as {MODEL_KEY!r}"
            )
        return data[MODEL_KEY]

    def _content(self, data: dict[str, Any]) -> list[str]:
        """List, for people, the names of its files, or of the values in its dictionary."""
        if FILES_KEY not in data:
            return sorted(map(str, data))
        with self.as_directory() as folder:
            return sorted(os.listdir(folder))

    def _holds_files(self) -> bool:
        """Return whether it is a folder, maybe one that travels as a dict."""
        kind, content = self.get_internal_representation()
        return kind != "data_dict" or FILES_KEY in content

    def _read(self, folder: str, model: Any, allow_pickle: bool) -> keras.Model:
        """Read the model in a folder; None if no file is one."""
        name = self.get_metadata().get(self.MODEL_FILENAME_KEY) or _model_in(folder)
        if name is not None:
            return self._loaded(os.path.join(folder, name), allow_pickle)
        weights = [name for name in os.listdir(folder) if name.endswith(".weights.h5")]
        if not weights:
            return None
        built = _built(model)
        built.load_weights(os.path.join(folder, weights[0]))
        return built

    def _loaded(self, path: str, allow_pickle: bool) -> keras.Model:
        tf = try_import("tensorflow", "tensorflow")
        # What Keras 2 wrote, because workers train with it, Keras 3 may not understand.
        if self.get_metadata().get(KERAS_KEY) == "tf_keras":
            return _read_by_keras_2(path, allow_pickle)
        if os.path.isdir(path) and not is_keras_2():
            return _saved_model(tf, path, allow_pickle)
        load_model = tf.keras.models.load_model
        check = check_no_code if is_keras_2() else check_safe_mode
        check(path, allow_pickle)
        return load_model(path, safe_mode=not (allow_pickle or is_allowed()))


def _read_by_keras_2(path: str, allow_pickle: bool) -> keras.Model:
    check_no_code(path, allow_pickle)
    keras = try_import("tf_keras", "tensorflow")
    return keras.models.load_model(path, safe_mode=not (allow_pickle or is_allowed()))


def _saved_model(tf: ModuleType, path: str, allow_pickle: bool) -> keras.Model:
    """Read a folder in TensorFlow's format, which Keras 3 reads as a layer only."""
    if os.path.exists(os.path.join(path, "keras_metadata.pb")) and is_installed("tf_keras"):
        return _read_by_keras_2(path, allow_pickle)
    endpoint = "serve" if hasattr(tf.saved_model.load(path), "serve") else "serving_default"
    return tf.keras.layers.TFSMLayer(path, call_endpoint=endpoint)


def _built(model: Any) -> keras.Model:
    if model is None:
        raise ValueError("the checkpoint holds only weights: give the model_definition")
    ready = hasattr(model, "set_weights") and not isinstance(model, type)
    return model if ready else model()


def _model_in(folder: str) -> str | None:
    """Find the file, or the folder itself, that looks like a model."""
    names = sorted(os.listdir(folder))
    for ending in (".keras", ".h5"):
        for name in names:
            if name.endswith(ending) and not name.endswith(".weights.h5"):
                return name
    return "." if "saved_model.pb" in names else None
