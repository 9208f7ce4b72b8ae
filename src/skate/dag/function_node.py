"""A task that has not been started."""

from __future__ import annotations

from typing import Any

from skate._facade.remote import RemoteFunction
from skate.dag.dag_node import DAGNode


class FunctionNode(DAGNode):
    """A call of a task: `function.bind(...)`.

    Args:
        function: The remote function.
        args: Arguments by position.
        kwargs: Arguments by keyword.
    """

    def __init__(
        self,
        function: RemoteFunction[..., object, object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
    ) -> None:
        self._body = function
        super().__init__(args, kwargs, function._given, {})

    def _run(self, given: object) -> Any:
        return self._body.remote(*self._bound_args, **self._bound_kwargs)

    def _title(self) -> str:
        return self._body.__name__
