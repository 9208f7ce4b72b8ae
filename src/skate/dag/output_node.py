"""A graph with several results."""

from __future__ import annotations

from typing import Any

from skate.dag.dag_node import DAGNode


class MultiOutputNode(DAGNode):
    """Several results: `MultiOutputNode([a, b])`, whose execution returns a reference for each.

    Args:
        args: The nodes.
    """

    def __init__(self, args: list[object] | tuple[object, ...]) -> None:
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"MultiOutputNode takes a list of nodes; got {args!r}")
        super().__init__(args, {}, {}, {})

    def _run(self, given: object) -> Any:
        return [*self._bound_args]
