"""Weights of TensorFlow networks, to be sent between processes without the graphs."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from skate.experimental._tf_stores import EagerStore, GraphStore, joined
from skate.experimental._tf_variables import graph_of, named, operation_of, reached

if TYPE_CHECKING:
    import numpy as np

    Weights = dict[str, np.ndarray]

__all__ = ["TensorFlowVariables"]


class TensorFlowVariables:
    """The variables that an output depends on, and their values.

        variables = TensorFlowVariables(loss, sess)   # sessions and graphs
        variables = TensorFlowVariables(model)        # tf.Module, Keras model, list of variables
        weights = variables.get_weights()             # {name: array}
        variables.set_weights(weights)

    With a graph, all operations that setting needs are added here, and none later.

    Attributes:
        variables: the variables by name, in a fixed order.
        placeholders, assignment_nodes: by name, what values go in through and what sets them;
            empty without a graph.
        sess: the session, or None.
    """

    def __init__(
        self, output: object, sess: object = None, input_variables: object = None
    ) -> None:
        """Find the variables.

        Args:
            output: A tensor, operation, variable, module or Keras model, or a list of them. Every
                variable that it depends on is found. None: `input_variables` only.
            sess: The session that holds the values, if there is a graph. May be given later by
                `set_session`.
            input_variables: Further variables.
        """
        roots = [*_leaves(output), *_leaves(input_variables)]
        if not roots:
            raise ValueError(
                f"there are no variables in {output!r}: a Keras model has none before it was "
                "built or called once; give an output, a model or input_variables"
            )
        self.sess: Any = sess
        self._store: GraphStore | EagerStore
        if any(operation_of(root) is not None for root in roots):
            graph = graph_of(roots)
            self._store = GraphStore(graph, named(reached(roots, graph)))
        else:
            self._store = EagerStore(named(roots))
        self.variables: dict[str, Any] = self._store.variables
        self.placeholders: dict[str, Any] = self._store.placeholders
        self.assignment_nodes: dict[str, Any] = self._store.assignment_nodes

    def set_session(self, sess: object) -> None:
        """Set the session to use from now on.

        Args:
            sess: The session that holds the values.
        """
        self.sess = sess

    def get_weights(self) -> Weights:
        """Return the values by name, as they are now.

        Without a graph the arrays are read-only views, so that nothing is copied on the way to
        other processes; copy what you want to change.
        """
        return self._store.read(self.sess)

    def set_weights(self, new_weights: Mapping[str, object]) -> None:
        """Set variables by name: all of them, or some.

        Args:
            new_weights: Arrays by name, as `get_weights` returns them.

        Raises:
            TypeError: If it is no dictionary.
            ValueError: If a name, shape or type does not fit; then nothing was set.
        """
        if not isinstance(new_weights, Mapping):
            raise TypeError(
                "set_weights takes a dictionary of arrays by name, as get_weights returns it; got "
                f"{type(new_weights).__name__}. One flat array of all values goes to set_flat."
            )
        if unknown := [name for name in new_weights if name not in self.variables]:
            raise ValueError(_unknown_names(unknown, list(self.variables)))
        self._store.write(
            self.sess,
            {name: self._store.fitted(name, value) for name, value in new_weights.items()},
        )

    def get_flat_size(self) -> int:
        """Count the numbers that all variables hold together."""
        return sum(self._store.sizes().values())

    def get_flat(self) -> np.ndarray:
        """Return all values as one array of one dimension. ValueError if that would round some."""
        return joined(self.get_weights())

    def set_flat(self, new_weights: object) -> None:
        """Set all variables from one array, in the order of `variables`, whatever their names.

        Args:
            new_weights: The array, as `get_flat` returns it.

        Raises:
            ValueError: If it has too many or too few values.
        """
        import numpy as np

        flat = np.asarray(new_weights)
        sizes = self._store.sizes()
        if flat.shape != (sum(sizes.values()),):
            raise ValueError(
                f"set_flat takes one array of {sum(sizes.values())} numbers (get_flat_size()); "
                f"got one of shape {flat.shape}"
            )
        ends = np.cumsum(list(sizes.values()), dtype=np.intp)
        parts = dict(zip(sizes, np.split(flat, ends)[:-1], strict=True))
        self._store.write(
            self.sess,
            {name: self._store.reshaped(name, part) for name, part in parts.items()},
        )


def _leaves(output: object) -> Iterable[object]:
    """Yield tensors, operations and variables in whatever holds them."""
    if output is None:
        return
    if isinstance(output, Mapping):
        output = list(output.values())
    # Keras counts random seeds and metrics among `variables`, but not among `weights`.
    held = getattr(output, "weights", getattr(output, "variables", None))
    if isinstance(output, (list, tuple)):
        held = output
    if isinstance(held, (list, tuple)):
        for item in held:
            yield from _leaves(item)
    else:
        yield output


def _unknown_names(unknown: list[Any], known: list[str]) -> str:
    text = f"no variables are named {unknown} here; there are {known}. "
    if any(name.partition(":")[0] in known for name in map(str, unknown)):
        text += "They go by their names without the output's number: 'w' and not 'w:0'. "
    if {_without_number(name) for name in unknown} & {_without_number(name) for name in known}:
        text += (
            "Names that differ by a number only come from two networks in one process: TensorFlow "
            "adds numbers to tell them apart. Build each network in an actor of its own, after "
            "tf.keras.backend.clear_session(), or, if it has a session, in a graph of its own "
            "(`with tf.Graph().as_default():`); or use get_flat and set_flat, which go by order. "
        )
    return text + "Nothing was set."


def _without_number(name: object) -> str:
    return re.sub(r"_\d+(?=/|$)", "", str(name))
