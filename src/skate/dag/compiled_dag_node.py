"""`node.experimental_compile()`: the interface of Ray's compiled graphs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.dag.dag_node import DAGNode


class CompiledDAG:
    """A graph to be executed many times, until `teardown`.

    Actor calls of one process to another go directly here, so there is nothing to compile.
    """

    def __init__(self, root: DAGNode) -> None:
        self._root: DAGNode | None = root

    def execute(self, *args: object, **kwargs: object) -> Any:
        """As `DAGNode.execute`: a reference, or a list of them."""
        if self._root is None:
            raise RuntimeError("teardown() has ended this graph: compile the node again")
        return self._root.execute(*args, **kwargs)

    async def execute_async(self, *args: object, **kwargs: object) -> Any:
        """As `execute`, for a result that is awaited: one future, or a list of them."""
        made = self.execute(*args, **kwargs)
        return [_future(ref) for ref in made] if isinstance(made, list) else _future(made)

    def teardown(self) -> None:
        """End it. Its actors go with their last handle."""
        self._root = None


def _future(ref: Any) -> Awaitable[object]:
    future: Awaitable[Any] = asyncio.ensure_future(ref)
    return future
