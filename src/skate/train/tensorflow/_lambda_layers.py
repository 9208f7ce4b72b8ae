"""Code in files of Keras: a Lambda layer is stored as Python bytecode, which runs when its model
is read. Keras 3, and the format `.keras`, refuse it by themselves; Keras 2 runs what it finds in
HDF5 files and in folders of TensorFlow."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

from skate._core.optional_imports import try_import
from skate._run.pickles import is_allowed
from skate.exceptions import UntrustedPickleError

_LAMBDA = "Lambda"  # the class of such layers, in descriptions of models
_FOLDER_FILES = ("keras_metadata.pb", "saved_model.pb")  # either may describe the layers
_ESCAPED = re.compile(rb"\\u00([0-7][0-9a-fA-F])")  # how JSON may write an ASCII character


def check_no_code(path: str, allow_pickle: bool) -> None:
    """Check that a model can be read by Keras 2 without running code that it brings along.

    Args:
        path: A file, or a folder in TensorFlow's format.
        allow_pickle: Whether it may run what it brings along.

    Raises:
        UntrustedPickleError: If it has a Lambda layer, and that is not allowed.
    """
    if allow_pickle or is_allowed():
        return
    if os.path.isdir(path):
        found = any(_is_named_in(Path(path, name)) for name in _FOLDER_FILES)
    else:
        found = _is_named(_description_in(path))
    if found:
        raise UntrustedPickleError(path, "is a Keras model with a Lambda layer, which is bytecode")


def _is_named_in(file: Path) -> bool:
    if not file.exists():
        return False
    plain = _ESCAPED.sub(lambda found: bytes([int(found[1], 16)]), file.read_bytes())
    return f'"{_LAMBDA}"'.encode() in plain


def _description_in(path: str) -> Any:
    h5py = try_import("h5py", "tensorflow")
    if not h5py.is_hdf5(path):  # whatever its name is
        return {}
    with h5py.File(path, "r") as file:
        text = file.attrs.get("model_config", "{}")
    return json.loads(text)


def _is_named(described: object) -> bool:
    """Return whether a layer anywhere in a description is of that class."""
    if isinstance(described, dict):
        return any(_is_named(value) for value in described.values())
    if isinstance(described, list):
        return any(_is_named(value) for value in described)
    return isinstance(described, str) and described.rpartition(">")[2] == _LAMBDA
