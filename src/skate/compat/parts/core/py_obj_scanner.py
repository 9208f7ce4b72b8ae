"""`ray.dag.py_obj_scanner`: nodes, or whatever else, found inside values and replaced."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from skate.dag import DAGNode
from skate.dag._nested import Parts

_instances: dict[int, _PyObjScanner] = {}  # those that have not been cleared, by their id()


class _PyObjScanner:
    """Look for instances of `source_type` inside a value, and replace them."""

    def __init__(self, source_type: type | tuple[type, ...] = DAGNode) -> None:
        self._source_type = source_type
        self._parts: Parts | None = None
        _instances[id(self)] = self

    def find_nodes(self, obj: object) -> list[Any]:
        """Return what is found inside `obj`, in order, as often as it is met."""
        self._parts = Parts(obj, self._source_type)
        return self._parts.found()

    def replace_nodes(self, table: Mapping[object, object]) -> Any:
        """Return the value that was searched, with `table[node]` in the place of each node."""
        if self._parts is None:
            raise ValueError("replace_nodes() is about what find_nodes() found: call that before")
        return self._parts.joined(table.__getitem__)

    def clear(self) -> None:
        """Forget the value."""
        _instances.pop(id(self), None)
        self._parts = None
