"""Fusing: neighbouring per-block nodes of a plan become one stage, where they run together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import skate
from skate.data._execution.compute import ActorPoolStrategy, Compute, TaskPoolStrategy
from skate.data._execution.stages import demand_of
from skate.data._plan import nodes as plan


@dataclass
class Fused:
    """Per-block nodes that make one stage."""

    steps: list[Any]
    names: list[str]
    compute: Compute | None  # None: Arrow's kernels only
    options: dict[str, Any]
    min_rows: int = 0
    is_cut_later: bool = False  # in this process: somebody else cuts its blocks


def fuse(nodes: list[plan.Map], head: Fused | None = None) -> list[Fused]:
    """Join neighbours that can run in one stage; those that cannot begin another."""
    fused = [head] if head is not None else []
    for node in nodes:
        if fused and _join(fused[-1], node):
            continue
        fused.append(
            Fused([node.step], [node.name], node.compute, dict(node.options), node.min_rows)
        )
    return fused


def _join(stage: Fused, node: plan.Map) -> bool:
    """Put the node into the stage if that changes neither where nor how often things run."""
    if node.compute is not None:
        if stage.compute is not None and not _alike(stage, node):
            return False
        if stage.compute is None and "num_gpus" in dict(node.options):
            return False  # a GPU should not wait for a read
        stage.compute, stage.options = node.compute, dict(node.options)
        stage.min_rows = max(stage.min_rows, node.min_rows)
    stage.steps.append(node.step)
    stage.names.append(node.name)
    return True


def _alike(stage: Fused, node: plan.Map) -> bool:
    """Return whether a node fits a stage: tasks join tasks, and tasks without wishes of their own
    join the actors after them."""
    if stage.options == dict(node.options) and stage.compute == node.compute:
        return isinstance(stage.compute, TaskPoolStrategy)
    plain = stage.compute == TaskPoolStrategy() and not stage.options
    return plain and "num_gpus" not in dict(node.options)


def check_resources(fused: Sequence[Fused]) -> None:
    """Raise if the stages, which run side by side, can never all have what they ask for."""
    needs: dict[str, float] = {}
    largest: dict[str, float] = {}
    for stage in fused:
        for name, amount in demand_of(stage.options).items():
            if isinstance(stage.compute, ActorPoolStrategy):
                needs[name] = needs.get(name, 0) + amount * stage.compute.min_size
            else:
                largest[name] = max(largest.get(name, 0), amount)
    total = skate.cluster_resources()
    for name in {**needs, **largest}:
        wanted = needs.get(name, 0) + largest.get(name, 0)
        if wanted > total.get(name, 0):
            steps = ", ".join("->".join(stage.names) for stage in fused)
            raise ValueError(
                f"{steps} run side by side and ask for {wanted:g} {name} together, but there are "
                f"{total.get(name, 0):g}. Ask for less (num_cpus, num_gpus, concurrency), "
                "materialize() in between, or pretend there is more: skate.init(num_gpus=...)"
            )
