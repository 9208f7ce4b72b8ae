"""Code in models of Keras: what their files say must not choose what Python runs.

Keras 3 refuses such files by itself, but for old versions of it. Keras 2 unpacks bytecode (layers
called Lambda), imports whatever module a description names, and calls any function of TensorFlow
that it names, such as one that writes files, while a model is read.
"""

from __future__ import annotations

import builtins
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from skate._core.optional_imports import install_command, try_import
from skate._core.tensorflow_processes import unsafe_keras_3
from skate._run.pickles import NOT_SIGNED, is_allowed, is_signed_file
from skate.exceptions import UntrustedPickleError

# Layers that are Python bytecode, any operation of TensorFlow, or any method of a class.
_RUN_ANYTHING = frozenset(
    {"Lambda", "TensorFlowOpLayer", "ClassMethod", "InstanceMethod", "InstanceProperty"}
)
_KERAS = ("keras", "tf_keras")
_CALLS = ("TFOpLambda", "SlicingOpLambda")  # of a function of TensorFlow by its name
# Of such functions, those that only calculate.
_CALCULATE = (
    "__operators__", "bitwise", "image", "keras.activations", "keras.backend", "linalg", "math",
    "nn", "ragged", "random", "signal", "sparse", "strings",
)  # fmt: skip
_CALCULATIONS = frozenset(
    """
    abs add add_n argmax argmin argsort boolean_mask broadcast_to cast clip_by_norm clip_by_value
    complex concat convert_to_tensor cos cosh cumsum divide einsum ensure_shape equal exp
    expand_dims eye fill floor gather gather_nd greater greater_equal identity less less_equal
    linspace logical_and logical_not logical_or matmul maximum meshgrid minimum multiply negative
    norm not_equal one_hot ones ones_like pad pow range rank reduce_all reduce_any
    reduce_logsumexp reduce_max reduce_mean reduce_min reduce_prod reduce_sum repeat reshape
    reverse roll round searchsorted sequence_mask shape sigmoid sign sin sinh size slice sort
    split sqrt square squeeze stack stop_gradient strided_slice subtract tan tanh tensordot tile
    transpose truediv unstack where zeros zeros_like
    """.split()
)


def check_no_code(path: str, allow_pickle: bool) -> None:
    """Check that a model can be read by Keras 2 without running code that it brings along.

    Args:
        path: A file, or a folder in TensorFlow's format.
        allow_pickle: Whether it may run what it brings along.

    Raises:
        UntrustedPickleError: If it may run code, and that is not allowed.
    """
    if allow_pickle or is_allowed():
        return
    for described in _descriptions(path):
        for what in _code_in(described):
            raise UntrustedPickleError(path, f"is a Keras model with {what}, which may run code")


def check_safe_mode(path: str, allow_pickle: bool) -> None:
    """Check that the `safe_mode` of the Keras 3 that is loaded is enough for a model.

    Args:
        path: A file.
        allow_pickle: Whether it may run what it brings along.

    Raises:
        UntrustedPickleError: If there are ways around it, the model is not this user's own, and
            that is not allowed.
    """
    version = unsafe_keras_3()
    if version is None or allow_pickle or is_allowed() or is_signed_file(path):
        return
    raise UntrustedPickleError(
        path,
        f"is a Keras model {NOT_SIGNED}; and Keras {version} has known ways around its safe_mode",
        instead=f". Or upgrade Keras: {install_command('tensorflow')}",
    )


def _descriptions(path: str) -> Iterator[Any]:
    """Yield what the files of a model say of its layers. A file may be of two formats at once."""
    if os.path.isdir(path):
        yield from map(json.loads, _texts_in_folder(Path(path)))
        return
    h5py = try_import("h5py", "tensorflow")
    if h5py.is_hdf5(path):
        with h5py.File(path, "r") as file:
            for name in ("model_config", "training_config"):
                yield json.loads(file.attrs.get(name, "{}"))
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            if "config.json" in archive.namelist():
                yield json.loads(archive.read("config.json"))


def _texts_in_folder(folder: Path) -> Iterator[str]:
    """Yield the descriptions in a folder of TensorFlow: of Keras in a file of their own, of older
    versions beside the graph."""
    metadata, graph = folder / "keras_metadata.pb", folder / "saved_model.pb"
    if metadata.exists():
        messages = try_import("tf_keras.protobuf.saved_metadata_pb2", "tensorflow")
        for node in messages.SavedMetadata.FromString(metadata.read_bytes()).nodes:
            yield node.metadata or "{}"
    if graph.exists():
        messages = try_import("tensorflow.core.protobuf.saved_model_pb2", "tensorflow")
        for part in messages.SavedModel.FromString(graph.read_bytes()).meta_graphs:
            for node in part.object_graph_def.nodes:
                yield node.user_object.metadata or "{}"


def _code_in(described: object) -> Iterator[str]:
    """Yield, for people, what may run code in a description and in all that is inside of it."""
    if isinstance(described, dict):
        yield from _foreign_module(described)
        yield from _function_called(described)
        for value in described.values():
            yield from _code_in(value)
    elif isinstance(described, list):
        for value in described:
            yield from _code_in(value)
    elif isinstance(described, str) and _class_name(described) in _RUN_ANYTHING:
        yield f"a {_class_name(described)} layer"


def _class_name(registered: object) -> str:
    """Return the name of a class without the package that it was registered for."""
    return str(registered).rpartition(">")[2]


def _foreign_module(described: dict[str, Any]) -> Iterator[str]:
    """Yield what would be imported because the file says so. A class or function that the program
    has registered is not: it is there."""
    module = described.get("module")
    if not isinstance(module, str) or module.partition(".")[0] in _KERAS:
        return
    is_function = described.get("class_name") == "function"
    name = described.get("config" if is_function else "registered_name")
    if module == "builtins" and not hasattr(builtins, str(name)):
        return  # how Keras calls functions of its own
    known = try_import("tf_keras", "tensorflow").utils.get_registered_object
    if not isinstance(name, str) or known(name) is None:
        yield f"{described.get('class_name')} of the module {module}"


def _function_called(described: dict[str, Any]) -> Iterator[str]:
    config = described.get("config")
    if _class_name(described.get("class_name")) in _CALLS and isinstance(config, dict):
        function = str(config.get("function")).removeprefix("compat.v1.")
        if function not in _CALCULATIONS and function.rpartition(".")[0] not in _CALCULATE:
            yield f"a call of tf.{function}"
