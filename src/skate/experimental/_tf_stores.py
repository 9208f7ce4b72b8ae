"""Reading and writing variables: through a session, or directly."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from skate._imports import try_import
from skate.experimental._tf_variables import unwrapped

if TYPE_CHECKING:
    import numpy as np

    Weights = dict[str, np.ndarray]


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
            self.variables[name].assign(value)


def _numpy_type(variable: Any) -> Any:
    return unwrapped(variable).dtype.base_dtype.as_numpy_dtype


def _fixed(value: np.ndarray) -> np.ndarray:
    """TensorFlow may keep what it is fed with as the variable's memory, so it must never change;
    an array from shared memory never does."""
    return value.copy() if value.flags.writeable else value


def _checked(sess: Any) -> Any:
    if sess is None:
        raise ValueError(
            "variables of a graph have values in a session only: give one, as "
            "TensorFlowVariables(output, sess) or by set_session(sess)"
        )
    return sess
