"""`ray.state`: the machine, as programs ask for it."""

from __future__ import annotations

import sys
from typing import Any

from skate import available_resources, cluster_resources, nodes, timeline
from skate.engine import current_engine
from skate.util import get_node_ip_address
from skate.util.state import list_actors

__all__ = [
    "actors",
    "available_resources",
    "available_resources_per_node",
    "cluster_resources",
    "current_node_id",
    "node_ids",
    "nodes",
    "placement_group_table",
    "state",
    "timeline",
    "total_resources_per_node",
]


_ACTOR_STATES = ("DEPENDENCIES_UNREADY", "PENDING_CREATION", "ALIVE", "RESTARTING", "DEAD")


def actors(
    actor_id: str | None = None, job_id: Any = None, actor_state_name: str | None = None
) -> dict[str, Any]:
    """Return id -> description in the words of Ray's tables; that of one actor, with `actor_id`.

    Args:
        actor_id: Of the only actor to describe.
        job_id: Only actors of this job.
        actor_state_name: Only actors in this state.
    """
    if actor_state_name is not None and actor_state_name not in _ACTOR_STATES:
        raise ValueError(
            f"{actor_state_name!r} is not a valid actor state name: allowed are "
            f"{', '.join(_ACTOR_STATES)}"
        )
    wanted = {"JobID": job_id and job_id.hex(), "State": actor_state_name}
    found = {row.actor_id: _in_tables_words(row) for row in list_actors(limit=10_000)}
    if actor_id is not None:
        return found.get(actor_id, {})
    return {
        id: row
        for id, row in found.items()
        if all(value is None or row[name] == value for name, value in wanted.items())
    }


def _in_tables_words(row: dict[str, Any]) -> dict[str, Any]:
    return {
        "ActorID": row["actor_id"],
        "ActorClassName": row["class_name"],
        "IsDetached": row["is_detached"],
        "Name": row["name"],
        "JobID": row["job_id"],
        "Address": {"NodeID": row["node_id"]},
        "State": row["state"],
        "NumRestarts": row["num_restarts"],
        "Pid": row["pid"],
    }


def current_node_id() -> str:
    """Return the name of the resource that only this machine has."""
    return f"node:{get_node_ip_address()}"


def node_ids() -> list[str]:
    """Return `current_node_id` of all machines."""
    return [f"node:{node['NodeManagerAddress']}" for node in nodes()]


def total_resources_per_node() -> dict[str, dict[str, float]]:
    """Return the id of the one node -> what it has."""
    return {node["NodeID"]: cluster_resources() for node in nodes()}


def available_resources_per_node() -> dict[str, dict[str, float]]:
    """Return the id of the one node -> what is free."""
    return {node["NodeID"]: available_resources() for node in nodes()}


def placement_group_table(placement_group_id: Any = None) -> dict[str, Any]:
    """Return the state of the group with that id, or with None that of every group by its id."""
    table = current_engine().placement_group_table()
    return table if placement_group_id is None else table.get(placement_group_id.hex(), {})


state = sys.modules[__name__]  # in Ray an object with the same functions
