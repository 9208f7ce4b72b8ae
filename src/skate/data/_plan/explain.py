"""A plan as text: as it was written, as it is optimised, and what runs together."""

from __future__ import annotations

from collections.abc import Iterator

from skate.data._execution.compute import ActorPoolStrategy
from skate.data._execution.fusing import Fused, fuse
from skate.data._plan import nodes as plan
from skate.data._plan.optimizer import optimise
from skate.data._relational.runs import with_runs


def explanation(node: plan.Node) -> str:
    optimised = optimise(node)
    return "\n".join(
        [
            "-------- Logical plan --------",
            plan.tree(node),
            "-------- Optimised plan --------",
            plan.tree(optimised),
            "-------- Stages --------",
            *stages(optimise(with_runs(node))),
        ]
    )


def stages(node: plan.Node) -> Iterator[str]:
    """Describe the stages in the order of the rows; what is joined by an arrow runs together."""
    maps: list[plan.Map] = []
    while isinstance(node, plan.Map):
        maps.insert(0, node)
        node = node.input
    for child in node.inputs:
        yield from stages(child)
    head = None
    if isinstance(node, plan.Read):
        head = Fused([], [node.name], None, dict(node.options))
    else:
        yield f"{node.name} (driver)"
    for stage in fuse(maps, head):
        yield f"{'->'.join(stage.names)} ({_place(stage)})"


def _place(stage: Fused) -> str:
    if stage.compute is None and not stage.options:
        return "driver"
    return "actors" if isinstance(stage.compute, ActorPoolStrategy) else "tasks"
