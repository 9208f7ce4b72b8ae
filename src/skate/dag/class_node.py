"""Actors that have not been started, and calls of their methods."""

from __future__ import annotations

from typing import Any

from skate._core.ids import actor_id_of
from skate._facade.actor import ActorClass
from skate._facade.actor_handle import ActorMethod
from skate.dag.constants import PARENT_CLASS_NODE_KEY, PREV_CLASS_METHOD_CALL_KEY
from skate.dag.dag_node import DAGNode
from skate.dag.input_node import InputNode
from skate.engine import current_engine


class ClassNode(DAGNode):
    """An actor, started anew by each execution: `Class.bind(...)`; its methods can be bound.

    Args:
        cls: The actor class.
        args: Arguments of its constructor by position.
        kwargs: Arguments of its constructor by keyword.
    """

    def __init__(
        self, cls: ActorClass[Any, Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> None:
        self._body = cls
        self._last_call: ClassMethodNode | None = None
        super().__init__(args, kwargs, cls._given, {})
        if any(isinstance(node, InputNode) for node in self._in_order()):
            raise ValueError(
                f"InputNode cannot be used in a ClassNode constructor, as in {self!r}: the actor "
                "is made before there is input; give it to one of its methods"
            )

    def _run(self, given: Any) -> Any:
        return self._body.remote(*self._bound_args, **self._bound_kwargs)

    def __getattr__(self, name: str) -> Any:
        methods = self.__dict__["_body"]._spec.meta.methods if "_body" in self.__dict__ else ()
        if name in methods:
            return _Unbound(self, name, {})
        if name == "bind":
            raise AttributeError(
                f".bind() cannot be used again on {self!r}: bind one of its methods, as in "
                "node.method.bind()"
            )
        raise AttributeError(f"{self._title()!r} has no attribute {name!r}")

    def _title(self) -> str:
        return str(self._body.__name__)


class _Unbound:
    """A method of an actor that has not been started."""

    def __init__(self, actor: ClassNode, name: str, options: dict[str, Any]) -> None:
        self._actor, self._name, self._options = actor, name, options

    def bind(self, *args: Any, **kwargs: Any) -> ClassMethodNode:
        """Make the node of a call, after those that have been bound before."""
        earlier = {
            PARENT_CLASS_NODE_KEY: self._actor,
            PREV_CLASS_METHOD_CALL_KEY: self._actor._last_call,
        }
        node = ClassMethodNode(self._name, args, kwargs, self._options, earlier)
        self._actor._last_call = node
        return node

    def options(self, **options: Any) -> _Unbound:
        """Return the same method with some options."""
        return _Unbound(self._actor, self._name, {**self._options, **options})

    def __getattr__(self, name: str) -> Any:
        if name == "remote":
            raise AttributeError(
                f".remote() cannot be used on ClassMethodNodes: the actor of {self._name} has not "
                "been started; write .bind()"
            )
        raise AttributeError(f"a method of a node has bind() and options(), and no {name!r}")


class ClassMethodNode(DAGNode):
    """A call of a method: `node.method.bind(...)`, or of an actor: `handle.method.bind(...)`.

    Args:
        method_name: The method.
        args: Arguments by position.
        kwargs: Arguments by keyword.
        options: Options of the call.
        other_args_to_resolve: The actor.
    """

    def __init__(
        self,
        method_name: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: dict[str, Any],
        other_args_to_resolve: dict[str, Any],
    ) -> None:
        self._method_name = method_name
        super().__init__(args, kwargs, options, other_args_to_resolve)

    def get_method_name(self) -> str:
        return self._method_name

    def actor_id(self) -> str | None:
        """Return the id of its actor; None if that is started by the execution."""
        parent = self._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]
        return actor_id_of(parent._ref).hex() if isinstance(parent, ActorMethod) else None

    def kill_actor(self) -> None:
        """Kill its actor, if that exists already."""
        parent = self._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]
        if isinstance(parent, ActorMethod):
            current_engine().kill(parent._ref, True)

    def _run(self, given: Any) -> Any:
        parent = self._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]
        if isinstance(parent, ActorMethod):
            method = parent
        else:
            method = getattr(parent, self._method_name).options(**self._bound_options)
        return method.remote(*self._bound_args, **self._bound_kwargs)

    def _title(self) -> str:
        parent = self._bound_other_args_to_resolve[PARENT_CLASS_NODE_KEY]
        owner = (
            parent._class_name.rpartition(".")[2] if isinstance(parent, ActorMethod) else parent
        )
        return f"{owner!s}.{self._method_name}"


class ClassMethodOutputNode(DAGNode):
    """One of the values of a method with several."""

    def __init__(self, call: ClassMethodNode, index: int) -> None:
        super().__init__((call, index), {}, {}, {})

    def _run(self, given: Any) -> Any:
        values, index = self._bound_args
        return values[index]


def bound_method(
    method: ActorMethod[..., Any, Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    options: dict[str, Any],
) -> ClassMethodNode | tuple[ClassMethodOutputNode, ...]:
    """Make the node for a call of an actor that exists; a node per value if it has several."""
    parent = {PARENT_CLASS_NODE_KEY: method, PREV_CLASS_METHOD_CALL_KEY: None}
    node = ClassMethodNode(method._name, args, kwargs, options, parent)
    count = options.get("num_returns")
    if not isinstance(count, int) or count < 2:
        return node
    return tuple(ClassMethodOutputNode(node, index) for index in range(count))
