"""A graph with several results."""

from __future__ import annotations

from typing import Any

from skate.dag.dag_node import DAGNode


class MultiOutputNode(DAGNode):
    """`MultiOutputNode([a, b])`: its execution returns a reference for each."""

    def __init__(self, args: list[object] | tuple[object, ...]) -> None:
        if not isinstance(args, (list, tuple)):
            raise ValueError(f"MultiOutputNode takes a list of nodes; got {args!r}")
        super().__init__(args, {}, {}, {})

    def _run(self, given: object) -> Any:
        return [*self._bound_args]
