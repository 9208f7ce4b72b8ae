"""`node.experimental_compile()`: the interface of Ray's compiled graphs."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate._core.refs import ObjectRef
from skate._facade.api import wait
from skate.dag._drawing import Drawing
from skate.dag.class_node import ClassMethodNode
from skate.dag.input_node import (
    DAGInputData,
    InputAttributeNode,
    InputNode,
    check_inputs,
    check_parts,
)
from skate.exceptions import GraphClosedError, GraphFullError

if TYPE_CHECKING:
    from skate.dag.dag_node import DAGNode

_CALLED = "dag.execute() or dag.execute_async() must be called with"


class CompiledDAG:
    """A graph to be executed many times, until `teardown`.

    Actor calls of one process to another go directly here, so there is nothing to compile. Calls
    of an actor are made in the order in which they were bound.

    Args:
        root: The node whose value an execution returns.
        most_at_once: How many executions may be under way; None for any number.
    """

    def __init__(self, root: DAGNode, most_at_once: int | None = None) -> None:
        self._root: DAGNode | None = root
        self._most_at_once = most_at_once
        self._under_way: list[list[ObjectRef[Any]]] = []  # kept only where there is a limit
        self._id = uuid.uuid4().hex
        self._nodes = sorted(root._in_order(), key=lambda node: node._made)
        check_inputs(self._nodes)
        check_parts(self._nodes)
        parts = [node.key for node in self._nodes if isinstance(node, InputAttributeNode)]
        self._positions = 1 + max((key for key in parts if isinstance(key, int)), default=-1)
        self._names = [key for key in parts if isinstance(key, str)]
        self._in_parts = bool(parts)
        if not parts:
            self._positions = sum(isinstance(node, InputNode) for node in self._nodes)

    def get_id(self) -> str:
        """Return what tells it from others."""
        return self._id

    @property
    def is_teardown(self) -> bool:
        """Whether `teardown` was called."""
        return self._root is None

    def execute(self, *args: object, **kwargs: object) -> Any:
        """Run the graph; returns a reference, or a list of them, at once.

        Args:
            args: The input: one value, or as many as `node[0]`, `node[1]` … ask for.
            kwargs: The values that `node.name` asks for.

        Raises:
            ValueError: If there are more or fewer than the graph asks for.
            GraphClosedError: If `teardown` was called.
            GraphFullError: If as many executions are under way as `_max_inflight_executions` of
                `experimental_compile` allows.
        """
        if self._root is None:
            raise GraphClosedError(
                "Channel closed: teardown() has ended this graph; compile the node again"
            )
        self._check_input(args, kwargs)
        self._check_under_way()
        given = DAGInputData(*args, **kwargs) if self._in_parts else next(iter(args), None)
        results: dict[DAGNode, Any] = {}
        for node in self._nodes:
            ready = node._apply_and_replace_all_child_nodes(results.__getitem__)
            results[node] = ready._run(given)
        made = results[self._root]
        if self._most_at_once is not None:
            self._under_way.append(_references(made))
        return made

    def _check_under_way(self) -> None:
        most = self._most_at_once
        if most is None:
            return
        self._under_way = [refs for refs in self._under_way if _some_are_unready(refs)]
        if (now := len(self._under_way)) >= most:
            raise GraphFullError(
                f"the graph can't have more than {most} in-flight executions, and {now} are under "
                "way: get a result before the next execute(), or give "
                "experimental_compile(_max_inflight_executions=...) a higher number, or none"
            )

    def _check_input(self, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        if len(args) != self._positions:
            raise ValueError(f"{_CALLED} {self._positions} positional args, got {len(args)}")
        for name in self._names:
            if name not in kwargs:
                raise ValueError(f"{_CALLED} kwarg `{name}`; got {sorted(kwargs)}")
        unknown = [name for name in kwargs if name not in self._names]
        if unknown:
            allowed = f"the kwargs {sorted(self._names)}" if self._names else "no kwargs"
            raise ValueError(f"{_CALLED} {allowed}; got {sorted(kwargs)}")

    async def execute_async(self, *args: object, **kwargs: object) -> Any:
        """Do as `execute`, for a result that is awaited: one future, or a list of them."""
        made = self.execute(*args, **kwargs)
        return [_future(ref) for ref in made] if isinstance(made, list) else _future(made)

    def visualize(
        self,
        filename: str = "compiled_graph",
        format: str = "png",
        view: bool = False,
        channel_details: bool = False,
    ) -> str:
        """Draw the graph.

        Args:
            filename: The file to write, without its ending; not with "ascii".
            format: "ascii" for text, or what Graphviz writes: "png", "pdf", "svg" …
            view: Whether to open the file, or print the text.
            channel_details: Whether to say how values travel; not with "ascii".

        Returns:
            The text, or for other formats the graph in the language of Graphviz.

        Raises:
            ImportError: If the format needs the package `graphviz`, which is not installed.
            ValueError: If `channel_details` is asked of a text, or `teardown` was called.
        """
        if self._root is None:
            raise ValueError("teardown() has ended this graph: compile the node again")
        drawing = Drawing(self._root)
        if format != "ascii":
            dot = drawing.as_dot(channel_details)
            _graphviz().Source(dot, filename=filename, format=format).render(view=view)
            return dot
        if channel_details:
            raise ValueError("channel_details is for files: format='ascii' has no room for them")
        text = drawing.as_text()
        if view:
            print(text)
        return text

    def teardown(self, kill_actors: bool = False) -> None:
        """End it. Its actors go with their last handle.

        Args:
            kill_actors: Whether to kill them now.
        """
        if kill_actors and self._root is not None:
            for node in self._nodes:
                if isinstance(node, ClassMethodNode):
                    node.kill_actor()
        self._root = None
        self._under_way.clear()


def _references(made: object) -> list[ObjectRef[Any]]:
    """Return the references in what an execution has made, each once."""
    results = made if isinstance(made, list) else [made]
    return list(dict.fromkeys(ref for ref in results if isinstance(ref, ObjectRef)))


def _some_are_unready(refs: list[ObjectRef[Any]]) -> bool:
    return bool(refs and wait(refs, num_returns=len(refs), timeout=0)[1])


def _graphviz() -> Any:
    try:
        return try_import("graphviz", "plot")
    except ImportError as error:
        text = f"{error}, or visualize(format='ascii') for text"
        raise ImportError(text, name=error.name) from None


def _future(ref: Any) -> Awaitable[object]:
    future: Awaitable[Any] = asyncio.ensure_future(ref)
    return future
