"""How much there is, changed while programs run."""

from __future__ import annotations

from skate._core.accelerators import NUMBERED
from skate._core.argument_checks import wrong_type, wrong_value
from skate.engine import current_engine

__all__ = ["set_resource"]

_OF_THE_STORE = "object_store_memory"


def set_resource(resource_name: str, capacity: float, node_id: str | None = None) -> None:
    """Change how much of a resource there is, for what waits and for what comes.

    What runs goes on: if it has more than there is left, `available_resources()` says so by a
    number below zero until enough has come back. What asks for more than there is waits from then
    on, and is no error, as there may be more again.

    Args:
        resource_name: Which one: "CPU", "GPU", "memory" or a name of one's own.
        capacity: How much of it there is from now on; 0 takes it away.
        node_id: The machine; `None` is this one, and there is no other one.

    Raises:
        TypeError: If the name is no string, or the capacity no number.
        ValueError: If the capacity is negative, or a part of a GPU; for the memory of objects,
            which is given to `init`; or for another machine.
        NotImplementedError: On a Ray cluster, whose nodes say what there is.

    Example:
        >>> from skate.experimental import set_resource
        >>> set_resource("licences", 2)
        >>> skate.cluster_resources()["licences"]
        2.0
    """
    if not isinstance(resource_name, str):
        raise wrong_type("resource_name", resource_name, "a string")
    if isinstance(capacity, bool) or not isinstance(capacity, (int, float)):
        raise wrong_type("capacity", capacity, "a number")
    if not 0 <= capacity < float("inf"):
        raise wrong_value("capacity", capacity, "a number that is not negative")
    if resource_name in NUMBERED and capacity != int(capacity):
        raise wrong_value("capacity", capacity, f"a whole number of {resource_name}s")
    if resource_name == _OF_THE_STORE or resource_name.startswith("node:"):
        raise wrong_value("resource_name", resource_name, "a resource that tasks ask for by name")
    engine = current_engine()
    here = [node["NodeID"] for node in engine.nodes()]
    if node_id is not None and node_id not in here:
        raise wrong_value("node_id", node_id, f"one of {here}, or None")
    engine.set_resource(resource_name, float(capacity))
