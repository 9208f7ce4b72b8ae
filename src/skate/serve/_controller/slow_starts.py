"""What the status says of replicas that take long to come up. No input or output."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from skate.serve._status import ReplicaState

if TYPE_CHECKING:
    from skate.serve._application.options import DeploymentOptions
    from skate.serve._controller.deployment_state import DeploymentState
    from skate.serve._identity import DeploymentID


def patience() -> float:
    """Return after how many seconds it is said; Ray's setting of the environment may change it."""
    return float(os.environ.get("SERVE_SLOW_STARTUP_WARNING_S") or 30)


def late_starts(states: Iterable[DeploymentState], now: float) -> dict[DeploymentID, int]:
    """Return how many replicas of each deployment are late, where some are."""
    limit = now - patience()
    counts = {
        state.id: sum(
            record.state == ReplicaState.STARTING and record.since < limit
            for record in state.replicas.values()
        )
        for state in states
    }
    return {id: count for id, count in counts.items() if count}


def reason_for_delay(
    count: int, options: DeploymentOptions, available: Mapping[str, float]
) -> str:
    """Say that so many replicas are late, and whether that is for want of resources.

    Args:
        count: How many.
        options: Those of their deployment.
        available: The resources that nobody has.
    """
    needed = _needed(options)
    late = f"{count} replicas have taken more than {patience():g}s"
    if all(amount <= available.get(name, 0) for name, amount in needed.items()):
        return f"{late} to initialize. `skate stack` shows what they do."
    free = {name: available.get(name, 0) for name in needed}
    return f"{late} to be scheduled. Each asks for {needed}; of these are free: {free}."


def _needed(options: DeploymentOptions) -> dict[str, float]:
    """Return what one replica asks for."""
    needed: dict[str, float] = {}
    for bundle in options.bundles_of_replica:
        for name, amount in bundle.items():
            needed[name] = needed.get(name, 0) + amount
    return needed
