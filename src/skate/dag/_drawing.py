"""A graph as text: for people, or in the language of Graphviz."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from skate.dag.class_node import ClassMethodNode, ClassMethodOutputNode
from skate.dag.input_node import InputAttributeNode, InputNode
from skate.dag.output_node import MultiOutputNode

if TYPE_CHECKING:
    from skate.dag.dag_node import DAGNode

_CHANNEL = "SharedMemoryType"
_COLUMN_GAP = 2
_ID_DIGITS = 6


class Drawing:
    """Nodes in the order of their numbers, and which of them needs which."""

    def __init__(self, root: DAGNode) -> None:
        """Number the nodes from the input on, those first that need fewer steps."""
        root = root if isinstance(root, MultiOutputNode) else MultiOutputNode([root])
        every = sorted(root._in_order(), key=lambda node: node._made)
        readers: dict[DAGNode, list[DAGNode]] = {node: [] for node in every}
        for node in every:
            for child in node._children:
                readers[child].append(node)
        self._nodes = _by_steps([node for node in every if not node._children], readers)
        self._numbers = {node: number for number, node in enumerate(self._nodes)}
        self._edges = [
            (self._numbers[node], self._numbers[reader])
            for node in self._nodes
            for reader in readers[node]
        ]

    def as_text(self) -> str:
        """Return the nodes, the edges, and the steps from the input to the output."""
        lines = ["Nodes Information:"]
        for number, node in enumerate(self._nodes):
            lines.append(f'{number} [label="Task {number}  {" ".join(_label(node))}"]')
        lines += ["", "Edges Information:"]
        lines += [f"{start} ---> {end}" for start, end in self._edges]
        lines += ["", "Legend:", "---> : through shared memory", "", "Graph Built:"]
        return "\n".join([*lines, *self._steps()])

    def _steps(self) -> Iterable[str]:
        depths: dict[int, int] = {}
        for node in sorted(self._nodes, key=lambda node: node._made):
            before = [depths[self._numbers[child]] for child in node._children]
            depths[self._numbers[node]] = max(before, default=-1) + 1
        names = {number: f"{number}:{_short(node)}" for number, node in enumerate(self._nodes)}
        width = max(map(len, names.values())) + _COLUMN_GAP
        for depth in range(max(depths.values()) + 1):
            some = sorted(number for number, found in depths.items() if found == depth)
            if depth:
                yield "".join("|".ljust(width) for _ in some).rstrip()
            yield "".join(names[number].ljust(width) for number in some).rstrip()

    def as_dot(self, channel_details: bool) -> str:
        """Return it in the language of Graphviz."""
        lines = ["digraph compiled_graph {"]
        for number, node in enumerate(self._nodes):
            label = "\\n".join([f"Task {number}", *_label(node)]).replace('"', "'")
            shape = "oval" if isinstance(node, ClassMethodNode) else "rectangle"
            lines.append(f'\t{number} [label="{label}" shape={shape} style=filled]')
        label = f" [label={_CHANNEL}]" if channel_details else ""
        lines += [f"\t{start} -> {end}{label}" for start, end in self._edges]
        return "\n".join([*lines, "}", ""])


def _by_steps(first: Sequence[DAGNode], readers: dict[DAGNode, list[DAGNode]]) -> list[DAGNode]:
    found: dict[DAGNode, None] = dict.fromkeys(first)
    left = deque(first)
    while left:
        for reader in readers[left.popleft()]:
            if reader not in found:
                found[reader] = None
                left.append(reader)
    return [*found]


def _label(node: DAGNode) -> list[str]:
    if isinstance(node, ClassMethodNode):
        id = node.actor_id()
        actor = [f"Actor: {id[-_ID_DIGITS:]}..."] if id is not None else []
        return [*actor, f"Method: {node.get_method_name()}"]
    if isinstance(node, ClassMethodOutputNode):
        return [f"ClassMethodOutputNode[{node.get_args()[1]}]"]
    if isinstance(node, InputAttributeNode):
        return [f"InputAttributeNode[{node.key}]"]
    known = isinstance(node, (InputNode, MultiOutputNode))
    return [type(node).__name__ if known else node._title()]


def _short(node: DAGNode) -> str:
    if isinstance(node, ClassMethodNode):
        id = node.actor_id()
        actor = f"Actor_{id[-_ID_DIGITS:]}" if id is not None else "Actor"
        return f"{actor}:{node.get_method_name()}"
    if isinstance(node, ClassMethodOutputNode):
        return f"Output[{node.get_args()[1]}]"
    return _label(node)[0]
