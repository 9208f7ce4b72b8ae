"""Graphs of calls between deployments, as Ray had them until 2.8: built first, called later.

    with InputNode() as number:
        graph = Adder.bind(1).add.bind(Doubler.bind().double.bind(number))

    serve.run(DAGDriver.bind(graph))

What is bound to a method is a call that has not been made. A deployment that is given one gets it
with handles in the place of the deployments: `await (await graph.remote(5))` makes all calls, each
once, and results go from replica to replica without passing through the caller.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NoReturn, cast

from skate.dag._nested import nested_in, replaced
from skate.dag.dag_node import DAGNode
from skate.dag.input_node import InputNode, check_inputs, given_input
from skate.serve._routing.responses import DeploymentResponse

if TYPE_CHECKING:
    from skate.serve._deployment import Application
    from skate.serve.handle import DeploymentHandle

__all__ = ["GraphHandle", "InputNode", "UnboundMethod"]


class GraphHandle(DAGNode):
    """A call of a deployment that has not been made, and with it all those that it depends on.

    Args:
        target: The deployment, or the handle to it.
        method_name: Which method is called.
        args: Arguments; other calls and the graph's input among them.
        kwargs: Named ones.
    """

    def __init__(
        self,
        target: Application | DeploymentHandle,
        method_name: str,
        args: tuple[object, ...],
        kwargs: Mapping[str, object],
    ) -> None:
        self._target = target
        self._method_name = method_name
        super().__init__(args, kwargs, {}, {})

    async def remote(self, *args: object, **kwargs: object) -> Any:
        """Make all calls of the graph.

        Args:
            args: The graph's input: a single one is what the InputNode stands for; of several,
                each is reached by its position or name.
            kwargs: Named input.

        Returns:
            The response of the last call, to be awaited.

        Raises:
            GraphError: If the graph has several InputNodes.
        """
        nodes = self._in_order()
        check_inputs(nodes)
        given = given_input(args, kwargs)
        results: dict[DAGNode, Any] = {}
        for node in nodes:
            is_call = isinstance(node, GraphHandle)
            results[node] = await node._call(results) if is_call else node._run(given)
        return results[self]

    async def _call(self, results: dict[DAGNode, Any]) -> DeploymentResponse:
        """Make this call; responses inside of a list or dictionary are waited for."""
        given = [*self._bound_args, *self._bound_kwargs.values()]
        values = dict(results)
        for child in nested_in([value for value in given if not isinstance(value, DAGNode)]):
            result = results[child]
            values[child] = await result if isinstance(result, DeploymentResponse) else result

        def argument(value: object) -> object:
            whole = isinstance(value, DAGNode)
            return results[value] if whole else replaced(value, values.__getitem__)  # type: ignore[index, arg-type]

        handle = cast("DeploymentHandle", self._target)  # as in every process that has replicas
        response: DeploymentResponse = handle.options(method_name=self._method_name).remote(
            *map(argument, self._bound_args),
            **{name: argument(value) for name, value in self._bound_kwargs.items()},
        )
        return response

    def __reduce__(self) -> tuple[object, ...]:
        state = (self._target, self._method_name, self._bound_args, self._bound_kwargs)
        return GraphHandle, state

    def _title(self) -> str:
        return f"{self._target!r}.{self._method_name}"


class UnboundMethod:
    """A method of a bound deployment, to be bound to the arguments of a call.

    Args:
        target: The deployment.
        method_name: The method.
    """

    def __init__(self, target: Application, method_name: str) -> None:
        self._target = target
        self._method_name = method_name

    def bind(self, *args: object, **kwargs: object) -> GraphHandle:
        """Return the call, for a graph.

        Args:
            args: Arguments; other calls and the graph's input among them.
            kwargs: Named ones.
        """
        return GraphHandle(self._target, self._method_name, args, kwargs)

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        self._refuse("()")

    def __getattr__(self, name: str) -> NoReturn:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse(f".{name}()")

    def _refuse(self, use: str) -> NoReturn:
        raise AttributeError(
            f"{use} cannot be used on ClassMethodNodes, such as {self._method_name!r} of "
            f"{self._target!r}. Applications must be deployed via `serve.run(app)` before their "
            "methods can be called: it returns a handle, which has them; in a graph, write .bind()"
        )


def has_calls(values: object) -> bool:
    """Return whether calls or the input of a graph are somewhere inside of these values."""
    return bool(nested_in(values))
