"""Finding variables: from outputs backwards through a graph, and the names they go by."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from skate._core.optional_imports import try_import


def operation_of(item: Any) -> Any:
    """Return the operation behind a tensor, an operation or a variable; None without a graph."""
    item = unwrapped(item)
    if hasattr(item, "node_def") and hasattr(item, "inputs"):
        return item
    try:
        return item.op
    except AttributeError:  # an eager tensor or variable
        return None


def unwrapped(variable: object) -> Any:
    """Return TensorFlow's variable inside a variable of Keras; anything else as it is."""
    value = getattr(variable, "value", None)
    return variable if value is None or callable(value) else value


def graph_of(roots: list[Any]) -> Any:
    """Return the one graph that all of these belong to."""
    operations = [(root, operation_of(root)) for root in roots]
    strangers = [root for root, operation in operations if operation is None]
    graphs = {id(operation.graph): operation.graph for _, operation in operations if operation}
    if strangers or len(graphs) > 1:
        raise ValueError(
            "all outputs and variables must belong to one graph; got "
            + (
                f"{strangers[0]!r}, which belongs to none"
                if strangers
                else f"{len(graphs)} graphs"
            )
        )
    return next(iter(graphs.values()))


def reached(roots: list[Any], graph: Any) -> list[Any]:
    """Find the variables of the graph that `roots` depend on, in the order of their creation."""
    operations = _upstream([operation_of(root) for root in roots])
    v1 = try_import("tensorflow", "tensorflow").compat.v1
    known = [
        variable
        for collection in (v1.GraphKeys.GLOBAL_VARIABLES, v1.GraphKeys.LOCAL_VARIABLES)
        for variable in graph.get_collection(collection)
    ]
    given = [root for root in roots if hasattr(root, "assign")]
    found = {id(variable): variable for variable in [*known, *given]}
    return [variable for variable in found.values() if operation_of(variable) in operations]


def _upstream(operations: list[Any]) -> set[Any]:
    """Collect these operations and all that they depend on; control inputs may form circles."""
    found = set(operations)
    waiting = list(found)
    while waiting:
        operation = waiting.pop()
        sources = {tensor.op for tensor in operation.inputs}
        sources.update(operation.control_inputs)
        new = sources - found
        found |= new
        waiting.extend(new)
    return found


def named(variables: Iterable[object]) -> dict[str, Any]:
    """Return variables by name. One with the name of an earlier one gets a number, as in
    graphs."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for variable in variables:
        if not hasattr(variable, "assign"):
            raise TypeError(
                f"an output without a graph names no variables: {variable!r}. "
                "Give the model, the tf.Module or a list of variables"
            )
        if id(variable) not in seen:
            seen.add(id(variable))
            found[_free_name(name_of(variable), found)] = variable
    return found


def name_of(variable: Any) -> str:
    """Return `dense/kernel`: the path in Keras, the name without the output's number elsewhere."""
    operation = operation_of(variable)
    if operation is not None:
        return str(operation.name)
    return str(getattr(variable, "path", variable.name)).partition(":")[0]


def _free_name(name: str, taken: dict[str, object]) -> str:
    free, number = name, 0
    while free in taken:
        number += 1
        free = f"{name}_{number}"
    return free
