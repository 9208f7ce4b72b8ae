"""`ray.cluster_utils`: importable, so that a program that mostly does without one can start."""

from __future__ import annotations

from typing import Any

__all__ = ["AutoscalingCluster", "Cluster", "cluster_not_supported"]

cluster_not_supported = True  # tests that need one say so with this


class Cluster:
    """Several nodes on one machine, which only Ray itself has."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError(
            f"{type(self).__name__} simulates several nodes, and skate runs on one machine: use "
            "Ray itself for this"
        )


class AutoscalingCluster(Cluster):
    """A cluster that grows and shrinks, which only Ray itself has."""
