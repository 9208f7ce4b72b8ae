"""Reading and writing variables: through a session, or directly."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._core.serialization import is_snapshot
from skate.experimental._tf_variables import unwrapped

if TYPE_CHECKING:
    import numpy as np

    Weights = dict[str, np.ndarray]

_WORTH_SHARING = 1 << 20  # bytes
_ALIGNMENT = 64  # of TensorFlow's own memory; its kernels abort the process at any other


class _Store:
    """Variables by name, and what fits into them."""

    def __init__(self, variables: dict[str, Any]) -> None:
        self.variables = variables
        self.placeholders: dict[str, Any] = {}
        self.assignment_nodes: dict[str, Any] = {}

    def fitted(self, name: str, value: object) -> np.ndarray:
        """Return the value as an array of the variable's type; ValueError when it does not fit."""
        import numpy as np

        variable = unwrapped(self.variables[name])
        try:
            array = np.asarray(value)
        except ValueError as error:  # lists of unequal length
            raise ValueError(
                f"variable {name!r} takes an array: {error}. Nothing was set."
            ) from None
        if not variable.shape.is_compatible_with(array.shape):
            raise ValueError(
                f"variable {name!r} has the shape {_shown(variable.shape)}; got an array of shape "
                f"{array.shape}. Nothing was set."
            )
        return _converted(array, np.dtype(_numpy_type(variable)), name)

    def reshaped(self, name: str, part: np.ndarray) -> np.ndarray:
        """Return a piece of a flat array, as the value of a variable."""
        return self.fitted(name, part.reshape(self.variables[name].shape))

    def sizes(self) -> dict[str, int]:
        """Return how many numbers each variable holds."""
        shapes = {name: unwrapped(variable).shape for name, variable in self.variables.items()}
        for name, shape in shapes.items():
            if not shape.is_fully_defined():
                raise ValueError(
                    f"variable {name!r} has the shape {_shown(shape)}, and a flat array has no "
                    "place for numbers of unknown count: use get_weights and set_weights"
                )
        return {name: math.prod(shape.as_list()) for name, shape in shapes.items()}


class GraphStore(_Store):
    """Variables of a graph. All operations are added at once: the graph does not grow later."""

    def __init__(self, graph: Any, variables: dict[str, Any]) -> None:
        super().__init__(variables)
        self._graph = graph
        if graph.finalized:
            raise RuntimeError(
                "the graph is finalized, and TensorFlowVariables adds operations to it: create it "
                "before the graph is closed, that is before a MonitoredTrainingSession or "
                "graph.finalize()"
            )
        v1 = try_import("tensorflow", "tensorflow").compat.v1
        with graph.as_default(), v1.control_dependencies(None):
            for name, variable in variables.items():
                target = unwrapped(variable)
                self.placeholders[name] = v1.placeholder(
                    target.dtype.base_dtype, target.shape, name=f"Placeholder_{name}"
                )
                self.assignment_nodes[name] = target.assign(self.placeholders[name])

    def read(self, sess: object) -> Weights:
        import numpy as np

        targets = {name: unwrapped(variable) for name, variable in self.variables.items()}
        found: dict[str, Any] = self._session(sess).run(targets)
        # One string comes as bytes, all else as arrays.
        return {
            name: np.asarray(value, object) if isinstance(value, bytes) else value
            for name, value in found.items()
        }

    def write(self, sess: object, weights: Weights) -> None:
        # The operation, not its output: that would be fetched, a copy of all weights.
        self._session(sess).run(
            [self.assignment_nodes[name].op for name in weights],
            feed_dict={self.placeholders[name]: _fixed(value) for name, value in weights.items()},
        )

    def _session(self, given: object) -> Any:
        sess = given
        if sess is None:
            sess = try_import("tensorflow", "tensorflow").compat.v1.get_default_session()
        if sess is None:
            raise ValueError(
                "variables of a graph have values in a session only: give one, as "
                "TensorFlowVariables(output, sess) or by set_session(sess)"
            )
        if getattr(sess, "graph", self._graph) is not self._graph:
            raise ValueError(
                f"{sess!r} is a session of another graph than that of the variables: give one of "
                "theirs, by set_session(sess)"
            )
        return sess


class EagerStore(_Store):
    """Variables without a graph. The session, if any, is not needed."""

    def read(self, sess: object) -> Weights:
        import numpy as np

        # Views, not copies: whoever updates a variable that is being looked at copies it first.
        return {
            name: np.asarray(unwrapped(variable).read_value())
            for name, variable in self.variables.items()
        }

    def write(self, sess: object, weights: Weights) -> None:
        for name, value in weights.items():
            self.variables[name].assign(_shared(value) if _is_shareable(value) else value)


def _shown(shape: Any) -> Any:
    return "of any rank" if shape.rank is None else tuple(shape.as_list())


def _converted(array: np.ndarray, wanted: np.dtype[Any], name: str) -> np.ndarray:
    """Return the numbers as another type. Fractions may be rounded; nothing else may change."""
    import numpy as np

    if array.dtype == wanted or wanted.kind == "O":
        return array.astype(wanted, copy=False)
    numbers = "biufV" + ("c" if wanted.kind == "c" else "")  # V: TensorFlow's own, as bfloat16
    with np.errstate(invalid="ignore", over="ignore"):
        found = array.astype(wanted) if array.dtype.kind in numbers else None
    if found is None or _is_damaged(found, array):
        raise ValueError(
            f"variable {name!r} is of type {wanted}, which cannot hold these values of type "
            f"{array.dtype}. Nothing was set."
        )
    return found


def _is_damaged(found: np.ndarray, array: np.ndarray) -> bool:
    import numpy as np

    if found.dtype.kind in "iub":
        return not np.array_equal(found, array)
    narrower = found.dtype.itemsize < array.dtype.itemsize
    return narrower and not np.array_equal(np.isinf(found), np.isinf(array))


def joined(weights: Weights) -> np.ndarray:
    """Join all numbers in one array, of a type that holds them."""
    import numpy as np

    if not weights:
        return np.zeros(0)
    try:
        flat = np.concatenate([value.ravel() for value in weights.values()])
    except TypeError:
        raise _unjoinable("no type holds them all", weights) from None
    for name, value in weights.items():
        whole = value.dtype.kind in "iu" and flat.dtype.kind == "f"
        if whole and not np.array_equal(_there_and_back(value, flat.dtype), value):
            raise _unjoinable(f"{flat.dtype} would round those of {name!r}", weights)
    return flat


def _unjoinable(reason: str, weights: Weights) -> ValueError:
    types = ", ".join(sorted({str(value.dtype) for value in weights.values()}))
    return ValueError(
        f"the values, of types {types}, do not fit into one array: {reason}. Use get_weights and "
        "set_weights"
    )


def _there_and_back(value: np.ndarray, type_: np.dtype[Any]) -> np.ndarray:
    import numpy as np

    with np.errstate(invalid="ignore"):
        return value.astype(type_).astype(value.dtype)


def _numpy_type(variable: object) -> Any:
    return unwrapped(variable).dtype.base_dtype.as_numpy_dtype


def _fixed(value: np.ndarray) -> np.ndarray:
    """Copy an array unless it never changes, as one from shared memory: TensorFlow may keep what
    it is fed with as the variable's memory."""
    return value if _never_changes(value) else value.copy()


def _is_shareable(value: np.ndarray) -> bool:
    plain = value.dtype.kind in "fiu" and value.flags.c_contiguous
    aligned = value.ctypes.data % _ALIGNMENT == 0
    return plain and aligned and value.nbytes >= _WORTH_SHARING and _never_changes(value)


def _never_changes(array: np.ndarray) -> bool:
    """Return whether nobody can write to its memory, as with arrays from shared memory. A
    read-only view of what somebody else writes to, a file for example, is no such thing."""
    import numpy as np

    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    return is_snapshot(owner)


def _shared(array: np.ndarray) -> Any:
    """Make a tensor in the array's own memory, which saves the copy and the memory. TensorFlow
    writes only to memory that it owns: a variable that is updated gets a new place first."""
    import numpy as np

    tf = try_import("tensorflow", "tensorflow")
    memory: Any = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array  # lives as long as the tensor
    view = np.frombuffer(memory, array.dtype).reshape(array.shape)
    # DLPack's older form, which TensorFlow takes, has no word for read-only memory.
    return tf.experimental.dlpack.from_dlpack(view.__dlpack__())
