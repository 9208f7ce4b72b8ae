"""The gang that a replica belongs to: replicas that start and end together."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["GangContext"]


@dataclass
class GangContext:
    """What a replica knows of the gang that it starts and ends with.

    Args:
        gang_id: The name of the gang; one that is started in its place has another.
        rank: The number of this replica in its gang.
        world_size: How many replicas the gang has.
        member_replica_ids: The names of these replicas, by their ranks.
        pg_name: The name of the placement group that holds what the gang reserves; "" where it
            reserves nothing.
    """

    gang_id: str
    rank: int
    world_size: int
    member_replica_ids: list[str]
    pg_name: str = ""
