"""`ray.state`: the machine, as programs ask for it."""

from __future__ import annotations

from skate import available_resources, cluster_resources, nodes, timeline

__all__ = [
    "available_resources",
    "available_resources_per_node",
    "cluster_resources",
    "nodes",
    "timeline",
    "total_resources_per_node",
]


def total_resources_per_node() -> dict[str, dict[str, float]]:
    """Id of the one node -> what it has."""
    return {node["NodeID"]: cluster_resources() for node in nodes()}


def available_resources_per_node() -> dict[str, dict[str, float]]:
    """Id of the one node -> what is free."""
    return {node["NodeID"]: available_resources() for node in nodes()}
