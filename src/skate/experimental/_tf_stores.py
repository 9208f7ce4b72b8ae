"""Reading and writing variables: through a session, or directly."""

from __future__ import annotations

import ctypes
import math
from typing import TYPE_CHECKING, Any

from skate._imports import try_import
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

    def fitted(self, name: str, value: Any) -> np.ndarray:
        """The value as an array of the variable's type; ValueError when it has another shape."""
        import numpy as np

        variable = self.variables[name]
        array = np.asarray(value, dtype=_numpy_type(variable))
        if not unwrapped(variable).shape.is_compatible_with(array.shape):
            raise ValueError(
                f"variable {name!r} has the shape {tuple(variable.shape)}; got an array of shape "
                f"{array.shape}. Nothing was set."
            )
        return array

    def reshaped(self, name: str, part: np.ndarray) -> np.ndarray:
        """A piece of a flat array, as the value of a variable."""
        variable = self.variables[name]
        return part.reshape(variable.shape).astype(_numpy_type(variable), copy=False)

    def sizes(self) -> dict[str, int]:
        """How many numbers each variable holds."""
        return {name: math.prod(variable.shape) for name, variable in self.variables.items()}


class GraphStore(_Store):
    """Variables of a graph. All operations are added at once: the graph does not grow later."""

    def __init__(self, graph: Any, variables: dict[str, Any]) -> None:
        super().__init__(variables)
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

    def read(self, sess: Any) -> Weights:
        targets = {name: unwrapped(variable) for name, variable in self.variables.items()}
        found: Weights = _checked(sess).run(targets)
        return found

    def write(self, sess: Any, weights: Weights) -> None:
        # The operation, not its output: that would be fetched, a copy of all weights.
        _checked(sess).run(
            [self.assignment_nodes[name].op for name in weights],
            feed_dict={self.placeholders[name]: _fixed(value) for name, value in weights.items()},
        )


class EagerStore(_Store):
    """Variables without a graph. The session, if any, is not needed."""

    def read(self, sess: Any) -> Weights:
        import numpy as np

        # Views, not copies: whoever updates a variable that is being looked at copies it first.
        return {
            name: np.asarray(unwrapped(variable).read_value())
            for name, variable in self.variables.items()
        }

    def write(self, sess: Any, weights: Weights) -> None:
        for name, value in weights.items():
            self.variables[name].assign(_shared(value) if _is_shareable(value) else value)


def _numpy_type(variable: Any) -> Any:
    return unwrapped(variable).dtype.base_dtype.as_numpy_dtype


def _fixed(value: np.ndarray) -> np.ndarray:
    """TensorFlow may keep what it is fed with as the variable's memory, so it must never change;
    an array from shared memory never does."""
    return value if _never_changes(value) else value.copy()


def _is_shareable(value: np.ndarray) -> bool:
    plain = value.dtype.kind in "fiu" and value.flags.c_contiguous
    aligned = value.ctypes.data % _ALIGNMENT == 0
    return plain and aligned and value.nbytes >= _WORTH_SHARING and _never_changes(value)


def _never_changes(array: np.ndarray) -> bool:
    """Whether nobody can write to its memory, as with arrays from shared memory. A read-only
    view of what somebody else writes to is no such thing."""
    import numpy as np

    owner: Any = array
    while isinstance(owner, np.ndarray):
        if owner.flags.writeable:
            return False
        owner = owner.base
    if owner is None:
        return False
    try:
        return memoryview(owner).readonly
    except TypeError:  # not known to be memory at all
        return False


def _shared(array: np.ndarray) -> Any:
    """A tensor in the array's own memory, which saves the copy and the memory. TensorFlow writes
    only to memory that it owns: a variable that is updated gets a new place first."""
    import numpy as np

    tf = try_import("tensorflow", "tensorflow")
    memory: Any = (ctypes.c_char * array.nbytes).from_address(array.ctypes.data)
    memory.owner = array  # lives as long as the tensor
    view = np.frombuffer(memory, array.dtype).reshape(array.shape)
    # DLPack's older form, which TensorFlow takes, has no word for read-only memory.
    return tf.experimental.dlpack.from_dlpack(view.__dlpack__())


def _checked(sess: Any) -> Any:
    if sess is None:
        raise ValueError(
            "variables of a graph have values in a session only: give one, as "
            "TensorFlowVariables(output, sess) or by set_session(sess)"
        )
    return sess
