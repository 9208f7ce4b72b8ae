"""What `execute` is given, as nodes of the graph."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from skate.dag.dag_node import DAGNode, GraphError


class InputNode(DAGNode):
    """The input of a graph: `with InputNode() as x: dag = f.bind(x, x[0], x.name)`.

    Args:
        input_type: For readers: what the graph expects.
    """

    def __init__(self, *args: object, input_type: object = None, **kwargs: object) -> None:
        """Take `input_type` for readers: it says what the graph expects."""
        if args or kwargs:
            raise ValueError(
                "InputNode should not take any args or kwargs: the input is given to execute(); "
                f"got {args!r}, {kwargs!r}"
            )
        self.input_type = input_type
        self._entered = False
        self._parts: dict[tuple[str, int | str], InputAttributeNode] = {}
        super().__init__((), {}, {}, {})

    def __enter__(self) -> InputNode:
        self._entered = True
        return self

    def __exit__(self, *exc: object) -> None:
        """Do nothing: the nodes that were built inside go on to use it."""

    def __getitem__(self, key: int | str) -> InputAttributeNode:
        if not isinstance(key, (int, str)):
            raise GraphError(
                "Please only use int index or str as first-level key: a part of the input has its "
                f"position or name; got {key!r}"
            )
        return self._part("item", key)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # of Python's own protocols
            raise AttributeError(f"InputNode has no attribute {name!r}")
        return self._part("attribute", name)

    def _part(self, kind: str, key: int | str) -> InputAttributeNode:
        if (kind, key) not in self._parts:
            self._parts[kind, key] = InputAttributeNode(self, key, kind)
        return self._parts[kind, key]

    def check_entered(self) -> None:
        """Raise a GraphError unless a `with` statement has made it the input of a graph."""
        if not self._entered:
            raise GraphError(
                "InputNode is a singleton instance that should be only used in context manager: "
                "it stands for the input of what is built in `with InputNode() as x: ...`"
            )

    def _run(self, given: object) -> Any:
        self.check_entered()
        return given

    def __reduce__(self) -> tuple[object, ...]:
        return _entered_input, ()


def _entered_input() -> InputNode:
    return InputNode().__enter__()


class InputAttributeNode(DAGNode):
    """A part of the input: `x[0]`, `x["name"]` or `x.name`.

    Args:
        whole: The input.
        key: The position or the name of the part.
        kind: "item" or "attribute": how it is looked up.
    """

    def __init__(self, whole: InputNode, key: int | str, kind: str) -> None:
        self._key, self._kind = key, kind
        super().__init__((), {}, {}, {"dag_input_node": whole})

    @property
    def key(self) -> int | str:
        """The position or the name of the part."""
        return self._key

    def _run(self, given: Any) -> Any:
        if self._kind == "attribute" and not isinstance(given, DAGInputData):
            return getattr(given, str(self._key))
        return given[self._key]

    def __reduce__(self) -> tuple[object, ...]:
        whole = self._bound_other_args_to_resolve["dag_input_node"]
        return InputAttributeNode, (whole, self._key, self._kind)

    def _title(self) -> str:
        return f"Input[{self._key!r}]"


class DAGInputData:
    """Several arguments of `execute`, by position and by name."""

    def __init__(self, *args: object, **kwargs: object) -> None:
        self._args, self._kwargs = args, kwargs

    def __getitem__(self, key: int | str) -> Any:
        return self._args[key] if isinstance(key, int) else self._kwargs[key]


def given_input(args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Return what the InputNode of a graph stands for in one execution."""
    return args[0] if len(args) == 1 and not kwargs else DAGInputData(*args, **kwargs)


def check_given(
    nodes: Iterable[DAGNode], args: tuple[object, ...], kwargs: dict[str, object]
) -> None:
    """Raise a GraphError if a graph needs an input and none was given, before anything runs."""
    if args or kwargs:
        return
    for node in nodes:
        if isinstance(node, InputNode):
            node.check_entered()
            raise GraphError(
                "this graph has an InputNode, and execute() was given nothing for it: pass the "
                "input, as execute(value)"
            )


def check_inputs(nodes: Iterable[DAGNode]) -> None:
    """Raise a GraphError if the nodes of a graph have more than one input."""
    inputs = [node for node in nodes if isinstance(node, InputNode)]
    if len(inputs) > 1:
        raise GraphError(
            "Each DAG should only have one unique InputNode, and this one has "
            f"{len(inputs)}: use the same `with InputNode() as ...` for all of its nodes"
        )


def check_parts(nodes: Sequence[DAGNode]) -> None:
    """Raise a GraphError unless the input of a compiled graph is used as it is taken apart."""
    used = [node for node in nodes if isinstance(node, InputAttributeNode)]
    for whole in (node for node in nodes if isinstance(node, InputNode)):
        left = [part.key for part in whole._parts.values() if part not in used]
        if left:
            raise GraphError(
                f"the input has parts that the graph does not use: {left} is unused; leave out "
                "what no node takes"
            )
        if used and any(whole in node._children for node in nodes if node not in used):
            raise GraphError(
                "nodes take InputNode() directly, or else parts of it, not both: its parts "
                f"here are {[part.key for part in used]}, and another node takes all of it"
            )
