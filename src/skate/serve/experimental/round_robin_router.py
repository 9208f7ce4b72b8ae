"""Replicas in turn."""

from __future__ import annotations

from itertools import count
from typing import Any

from skate.serve.request_router import (
    FIFOMixin,
    MultiplexMixin,
    PendingRequest,
    RequestRouter,
    RunningReplica,
)

__all__ = ["RoundRobinRouter"]


class RoundRobinRouter(FIFOMixin, MultiplexMixin, RequestRouter):
    """Sends each request to the next replica, and passes over those without room.

    Requests for a model go in turn to the replicas that have it.
    """

    def initialize_state(self, *args: Any, **kwargs: Any) -> None:
        """Begin with the first.

        Args:
            args: None.
            kwargs: None.
        """
        self._turn = count()

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return all replicas, the next one first.

        Args:
            candidate_replicas: All replicas that there are.
            pending_request: The request.
        """
        among = candidate_replicas
        if pending_request is not None and pending_request.metadata.multiplexed_model_id:
            chosen = self.apply_multiplex_routing(pending_request)
            among = [each for each in among if each.replica_id in chosen]
        if not among:
            return []
        first = next(self._turn) % len(among)
        return [[replica] for replica in among[first:] + among[:first]]
