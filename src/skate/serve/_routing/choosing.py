"""Which of several replicas gets a request, by what one router knows of them.

`most` is always how many requests a replica may have under way.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING
from zlib import crc32

if TYPE_CHECKING:
    from skate.serve._routing.routed_replica import RoutedReplica


def less_busy(replicas: Sequence[RoutedReplica], most: int) -> RoutedReplica | None:
    """Return the less busy of two that are drawn; any with room, if neither has."""
    count = len(replicas)
    if count == 1:
        return replicas[0] if replicas[0].has_room(most) else None
    if count > 2:
        chosen = least_busy(random.sample(replicas, 2), most)
        if chosen is not None:
            return chosen
    elif count == 2 and random.random() < 0.5:
        replicas = replicas[::-1]
    return least_busy(replicas, most)


def least_busy(replicas: Iterable[RoutedReplica], most: int) -> RoutedReplica | None:
    """Return the one that has fewest requests under way, if any has room."""
    free = (replica for replica in replicas if replica.has_room(most))
    return min(free, key=lambda replica: len(replica.in_flight), default=None)


def for_model(replicas: Sequence[RoutedReplica], model_id: str, most: int) -> RoutedReplica | None:
    """Return a replica that has the model, else the one with the fewest. Of several, all
    processes choose the same: requests for a new model that come at once load it once."""
    having = less_busy([replica for replica in replicas if replica.has_model(model_id)], most)
    if having is not None:
        return having
    free = (replica for replica in replicas if replica.has_room(most))
    return min(
        free,
        key=lambda replica: (
            replica.count_models(),
            crc32(f"{model_id} {replica.tag}".encode()),
        ),
        default=None,
    )
