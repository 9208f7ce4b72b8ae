"""What all nodes share: arguments, the way through the graph, and its execution."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from skate._core.argument_checks import optional, whole_numbers
from skate.dag._nested import Nested, nested_in, replaced

if TYPE_CHECKING:
    from skate.dag.compiled_dag_node import CompiledDAG

T = TypeVar("T")

_TRANSPORTS = ("auto", "shm")  # with the others, GPUs talk to each other
_DEVICES = ("default", "cpu")

_positive = optional(whole_numbers(1, "a positive integer"))

_numbers = itertools.count()  # of nodes, in the order in which they are made


class GraphError(ValueError, AssertionError):
    """A graph cannot be run; an AssertionError as well, which Ray raises here."""


class DAGNode(Nested):
    """A call that has not been made: what is called, and its arguments, nodes among them.

    `bind` makes them, so that programs need not.

    Args:
        args: Arguments by position.
        kwargs: Arguments by keyword.
        options: Options of the call.
        other_args_to_resolve: What else it needs, nodes among it.
    """

    def __init__(
        self,
        args: Iterable[Any],
        kwargs: Mapping[str, object],
        options: Mapping[str, object],
        other_args_to_resolve: Mapping[str, Any],
    ) -> None:
        self._bound_args = tuple(args)
        self._bound_kwargs = dict(kwargs)
        self._bound_options = dict(options)
        self._bound_other_args_to_resolve = dict(other_args_to_resolve)
        self._stable_uuid = uuid.uuid4().hex
        self._made = next(_numbers)
        self.cache_from_last_execute: dict[str, Any] = {}
        self._children: list[DAGNode] = nested_in(
            [self._bound_args, self._bound_kwargs, self._bound_other_args_to_resolve]
        )

    # -- what it holds -------------------------------------------------------------------------

    def get_args(self) -> tuple[Any, ...]:
        """Return the arguments by position."""
        return self._bound_args

    def get_kwargs(self) -> dict[str, Any]:
        """Return the arguments by keyword."""
        return dict(self._bound_kwargs)

    def get_options(self) -> dict[str, Any]:
        """Return the options that were given, under the names they were given by."""
        return dict(self._bound_options)

    def get_other_args_to_resolve(self) -> dict[str, Any]:
        """Return what the node depends on besides its arguments."""
        return dict(self._bound_other_args_to_resolve)

    def get_stable_uuid(self) -> str:
        """Return an id that is the same for a node and for its copies with other arguments."""
        return self._stable_uuid

    # -- running it ----------------------------------------------------------------------------

    def execute(self, *args: object, _ray_cache_refs: bool = False, **kwargs: object) -> Any:
        """Run everything this node depends on, and the node; returns its reference at once.

        The arguments are the graph's input: a single one is what the InputNode stands for; of
        several, each is reached by its position or name, as in `node[0]` or `node.name`.
        `_ray_cache_refs` keeps what each node gave, for `get_object_refs_from_last_execute`.

        Raises:
            ValueError: If the graph has an input and none is given, or it has several inputs.
        """
        from skate.dag.input_node import check_given, check_inputs, given_input

        nodes = self._in_order()
        check_inputs(nodes)
        check_given(nodes, args, kwargs)
        given = given_input(args, kwargs)
        made: dict[str, Any] = {}

        def run(node: DAGNode) -> Any:
            made[node.get_stable_uuid()] = result = node._run(given)
            return result

        result = self.apply_recursive(run)
        if _ray_cache_refs:
            self.cache_from_last_execute = made
        return result

    async def get_object_refs_from_last_execute(self) -> dict[str, Any]:
        """Return what the nodes gave in the last `execute(_ray_cache_refs=True)`, by their ids."""
        return dict(self.cache_from_last_execute)

    def clear_cache(self) -> None:
        """Forget what the nodes gave, so that it need not be kept."""
        self.cache_from_last_execute = {}

    def experimental_compile(
        self,
        _submit_timeout: float | None = None,
        _buffer_size_bytes: int | None = None,
        enable_asyncio: bool = False,
        _max_inflight_executions: int | None = None,
        _max_buffered_results: int | None = None,
        _overlap_gpu_communication: bool | None = None,
        _default_communicator: object = "create",
    ) -> CompiledDAG:
        """Return the graph in the form that Ray runs on channels of its own.

        Here it runs as any other.

        Args:
            _submit_timeout: Without effect: `execute` does not wait.
            _buffer_size_bytes: Checked, and without effect: values may have any size.
            enable_asyncio: Without effect: `execute_async` is always there.
            _max_inflight_executions: How many executions may be under way at the same time; one
                more is a `GraphFullError`. None for any number.
            _max_buffered_results: Without effect: there may be any number.
            _overlap_gpu_communication: Without effect: tensors travel through shared memory.
            _default_communicator: Without effect, likewise.

        Raises:
            ValueError: If `_buffer_size_bytes` or `_max_inflight_executions` is below 1.
            TypeError: If one of them is no whole number.
        """
        from skate.dag.compiled_dag_node import CompiledDAG

        _positive("_buffer_size_bytes", _buffer_size_bytes)
        most = _positive("_max_inflight_executions", _max_inflight_executions)
        return CompiledDAG(self, most)

    def with_tensor_transport(
        self,
        transport: str = "auto",
        device: str = "default",
        _static_shape: bool = False,
        _direct_return: bool = False,
    ) -> DAGNode:
        """Say how tensors travel from this node. Here always through shared memory.

        What Ray is promised of their shapes (`_static_shape`, `_direct_return`) saves nothing.

        Args:
            transport: "auto" or "shm", which mean the same.
            device: "default" or "cpu", which mean the same.

        Raises:
            ValueError: If another one is named, which connects GPUs.
        """
        if transport not in _TRANSPORTS or device not in _DEVICES:
            raise ValueError(
                f"tensors travel through shared memory here: transport takes one of {_TRANSPORTS} "
                f"and device one of {_DEVICES}; got {transport!r} and {device!r}"
            )
        return self

    def _run(self, given: object) -> Any:
        """Make the call; all nodes among the arguments have been replaced by their results."""
        raise NotImplementedError(f"{type(self).__name__} cannot be executed")

    # -- the way through the graph ---------------------------------------------------------------

    def apply_recursive(self, function: Callable[[Any], T]) -> T:
        """Call a function once per node, those first that others depend on.

        It receives each node with the results for its children in their places.
        """
        results: dict[DAGNode, T] = {}
        for node in self._in_order():
            results[node] = function(node._apply_and_replace_all_child_nodes(results.__getitem__))
        return results[self]

    def _in_order(self) -> list[DAGNode]:
        """Return all nodes, children before those who need them, also of long chains."""
        done: dict[DAGNode, None] = {}
        stack: list[DAGNode] = [self]
        while stack:
            waiting = [child for child in stack[-1]._children if child not in done]
            if waiting:
                stack.extend(reversed(waiting))
            else:
                done[stack.pop()] = None
        return [*done]

    def _get_toplevel_child_nodes(self) -> list[DAGNode]:
        """List the nodes that are arguments themselves, not somewhere inside of one."""
        values = (*self._bound_args, *self._bound_kwargs.values())
        top = [*values, *self._bound_other_args_to_resolve.values()]
        return [*dict.fromkeys(value for value in top if isinstance(value, DAGNode))]

    def _get_all_child_nodes(self) -> list[DAGNode]:
        return [*self._children]

    def _apply_and_replace_all_child_nodes(self, replace: Callable[[Any], Any]) -> DAGNode:
        """Copy this node with something else in the place of its children."""
        clone = object.__new__(type(self))
        clone.__dict__.update(self.__dict__)
        if self._children:
            clone._bound_args = tuple(replaced(value, replace) for value in self._bound_args)
            clone._bound_kwargs = _each(self._bound_kwargs, replace)
            clone._bound_other_args_to_resolve = _each(self._bound_other_args_to_resolve, replace)
            new = [clone._bound_args, clone._bound_kwargs, clone._bound_other_args_to_resolve]
            clone._children = nested_in(new)
        return clone

    def __reduce__(self) -> tuple[object, ...]:
        raise ValueError(
            f"{type(self).__name__} cannot be sent elsewhere: execute() it and send the reference"
        )

    def __getattr__(self, name: str) -> Any:
        if name == "remote":
            raise AttributeError(
                f".remote() cannot be used on {type(self).__name__}s: a node runs with execute(), "
                "after all that it depends on"
            )
        if name == "bind":
            raise AttributeError(
                f".bind() cannot be used again on {type(self).__name__}s: it is bound already; "
                "bind what takes its result"
            )
        raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")

    def __repr__(self) -> str:
        shown = [*map(repr, self._bound_args)]
        shown += [f"{name}={value!r}" for name, value in self._bound_kwargs.items()]
        return f"{self._title()}({', '.join(shown)})"

    def _title(self) -> str:
        return type(self).__name__


def _each(values: dict[str, Any], replace: Callable[[Any], Any]) -> dict[str, Any]:
    return {name: replaced(value, replace) for name, value in values.items()}
