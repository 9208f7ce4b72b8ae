"""Models of Keras in checkpoints."""

from __future__ import annotations

import os
import warnings
from pathlib import Path
from typing import TypeVar

from skate._core.tensorflow_processes import unsafe_keras_3
from skate._run.checkpoint import Checkpoint
from skate._run.folders import TemporaryFolder
from skate._run.pickles import signature_file, signature_of_file

MODEL_FILE = "model.keras"
# In the metadata:
MODEL_FILENAME_KEY = "_model_filename"
KERAS_KEY = "_keras"  # the package that wrote the model

AnyCheckpoint = TypeVar("AnyCheckpoint", bound=Checkpoint)


def model_checkpoint(
    kind: type[AnyCheckpoint], model: object, filename: str = MODEL_FILE
) -> AnyCheckpoint:
    """Make a checkpoint that holds a whole model, and knows which Keras wrote it."""
    if not hasattr(model, "save"):
        raise TypeError(f"only models of Keras can be saved; got {type(model).__name__}")
    folder = TemporaryFolder("checkpoint_")
    path = os.path.join(folder.path, filename)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # about formats; the user chose none
        model.save(path)
    if unsafe_keras_3() is not None and os.path.isfile(path):
        Path(signature_file(path)).write_bytes(signature_of_file(path))
    checkpoint = kind._in_temporary(folder)
    checkpoint.update_metadata({MODEL_FILENAME_KEY: filename, KERAS_KEY: _writer_of(model)})
    return checkpoint


def _writer_of(model: object) -> str:
    """Return the Keras that a model, or the class of the user's that it is of, comes from."""
    names = {base.__module__.partition(".")[0] for base in type(model).__mro__}
    return "tf_keras" if "tf_keras" in names else "keras"
