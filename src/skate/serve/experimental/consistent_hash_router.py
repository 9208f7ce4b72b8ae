"""Requests of a session go to the same replica, while it is there and has room."""

from __future__ import annotations

import random
from hashlib import blake2b

from skate.serve.request_router import PendingRequest, RequestRouter, RunningReplica

__all__ = ["ConsistentHashRouter"]


class ConsistentHashRouter(RequestRouter):
    """Sends requests with a `session_id` where the others of their session went.

    Which replica that is follows from the names alone, so that all processes agree; when replicas
    come and go, only the sessions of those move. Where it has no room, the next ones are tried.
    `num_fallback_replicas` of `request_router_kwargs` says how many; a request without a session
    goes anywhere.
    """

    def initialize_state(
        self, num_virtual_nodes: int = 100, num_fallback_replicas: int = 2
    ) -> None:
        """Note how many replicas to try.

        Args:
            num_virtual_nodes: Without effect: replicas are chosen evenly without such nodes.
            num_fallback_replicas: How many others to try where the first has no room.
        """
        self._tried = 1 + num_fallback_replicas

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return the replicas of a session, one after the other.

        Args:
            candidate_replicas: All replicas that there are.
            pending_request: The request.
        """
        session = pending_request.metadata.session_id if pending_request else ""
        if not session:
            return [random.sample(candidate_replicas, min(2, len(candidate_replicas)))]

        def weight(replica: RunningReplica) -> bytes:
            return blake2b(f"{session} {replica.replica_id.unique_id}".encode()).digest()

        ordered = sorted(candidate_replicas, key=weight)
        return [[replica] for replica in ordered[: self._tried]]
