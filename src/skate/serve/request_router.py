"""Routers of your own: classes that say which replicas a request may go to.

Derive from `RequestRouter`, define `choose_replicas`, and name the class in
`RequestRouterConfig(request_router_class=...)`. Every process with a handle has an instance; its
methods run on an event loop of their own. The mixins add what many routers want to know.
"""

from __future__ import annotations

import random
from collections.abc import Iterable

from skate._core.public_names import name_publicly
from skate.serve._identity import ReplicaID
from skate.serve._routing.router_base import RequestRouter
from skate.serve._routing.router_mixins import FIFOMixin, LocalityMixin, MultiplexMixin
from skate.serve._routing.router_views import PendingRequest, RequestMetadata, RunningReplica

__all__ = [
    "FIFOMixin",
    "LocalityMixin",
    "MultiplexMixin",
    "PendingRequest",
    "PowerOfTwoChoicesRequestRouter",
    "ReplicaID",
    "RequestMetadata",
    "RequestRouter",
    "RunningReplica",
]


class PowerOfTwoChoicesRequestRouter(FIFOMixin, LocalityMixin, MultiplexMixin, RequestRouter):
    """Takes the less busy of two replicas, as happens where no router is named."""

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return two replicas at random; for a model, of those that should have it.

        Args:
            candidate_replicas: All replicas that there are.
            pending_request: The request.
        """
        is_for_model = pending_request and pending_request.metadata.multiplexed_model_id
        apply = self.apply_multiplex_routing if is_for_model else self.apply_locality_routing
        ids = list(apply(pending_request))
        return [self._named(random.sample(ids, min(2, len(ids))))] if ids else []

    def _named(self, ids: Iterable[ReplicaID]) -> list[RunningReplica]:
        return [self._replicas[id] for id in ids]


name_publicly(__name__)
