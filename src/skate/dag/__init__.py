"""Graphs of calls, built first and run later: `f.bind(...)` instead of `f.remote(...)`.

with InputNode() as number:
    doubled = double.bind(number)
    total = add.bind(doubled, number)

skate.get(total.execute(5))  # 15

Nothing runs before `execute`, which may be called as often as one likes. Each node runs once per
execution, and results go from node to node as references, without passing through the caller.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.dag.class_node import ClassMethodNode, ClassNode
    from skate.dag.compiled_dag_node import CompiledDAG
    from skate.dag.constants import PARENT_CLASS_NODE_KEY, PREV_CLASS_METHOD_CALL_KEY
    from skate.dag.context import DAGContext
    from skate.dag.dag_node import DAGNode
    from skate.dag.function_node import FunctionNode
    from skate.dag.input_node import DAGInputData, InputAttributeNode, InputNode
    from skate.dag.output_node import MultiOutputNode
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "PARENT_CLASS_NODE_KEY",
    "PREV_CLASS_METHOD_CALL_KEY",
    "ClassMethodNode",
    "ClassNode",
    "CompiledDAG",
    "DAGContext",
    "DAGInputData",
    "DAGNode",
    "FunctionNode",
    "InputAttributeNode",
    "InputNode",
    "MultiOutputNode",
]
