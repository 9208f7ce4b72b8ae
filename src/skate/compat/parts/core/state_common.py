"""Of `ray.util.state.common`: what rows are, and the usual limits."""

from __future__ import annotations

from skate.util.state import StateRow

ActorState = JobState = NodeState = ObjectState = StateRow
PlacementGroupState = TaskState = WorkerState = StateRow

DEFAULT_LIMIT = 100
DEFAULT_RPC_TIMEOUT = 30  # seconds

__all__ = [
    "DEFAULT_LIMIT",
    "DEFAULT_RPC_TIMEOUT",
    "ActorState",
    "JobState",
    "NodeState",
    "ObjectState",
    "PlacementGroupState",
    "TaskState",
    "WorkerState",
]
