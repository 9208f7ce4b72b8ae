"""What many routers of users want to know: who came first, who is near, who has a model."""

from __future__ import annotations

from skate.serve._identity import ReplicaID
from skate.serve._routing.router_views import PendingRequest, RunningReplica


class _Mixin:
    """What a mixin relies on in the router that it is mixed into."""

    _replicas: dict[ReplicaID, RunningReplica]
    _replica_id_set: set[ReplicaID]


class FIFOMixin(_Mixin):
    """Have the request that came first get the replica that was found first."""

    takes_turns = True


class LocalityMixin(_Mixin):
    """Prefer replicas that are near. Here there is one machine: all of them are."""

    def apply_locality_routing(
        self, pending_request: PendingRequest | None = None
    ) -> set[ReplicaID]:
        """Return the ids of the replicas to try next.

        Args:
            pending_request: The request.
        """
        if pending_request is not None:
            pending_request.routing_context.should_backoff = True
        return self._replica_id_set

    def rank_replicas_via_locality(
        self, replicas: list[RunningReplica]
    ) -> list[list[RunningReplica]]:
        """Return those of this machine, those near it, and the rest.

        Args:
            replicas: Which replicas.
        """
        return [list(replicas), [], []]


class MultiplexMixin(_Mixin):
    """Prefer replicas that have loaded the model that a request is for."""

    def apply_multiplex_routing(
        self, pending_request: PendingRequest | None = None
    ) -> set[ReplicaID]:
        """Return the ids of the replicas to try next.

        First those with the model, then those with the fewest models, then all.

        Args:
            pending_request: The request.
        """
        if pending_request is None:
            return self._replica_id_set
        tried = pending_request.routing_context
        tried.should_backoff = True
        having = self._having(pending_request.metadata.multiplexed_model_id)
        if having and not tried.tried_models:
            tried.tried_models = True
            return having
        if not tried.tried_fewest_models:
            tried.tried_fewest_models = True
            return self._with_fewest_models()
        return self._replica_id_set

    def rank_replicas_via_multiplex(
        self, replicas: list[RunningReplica], multiplexed_model_id: str
    ) -> list[list[RunningReplica]]:
        """Return those that have the model, those that have the fewest, and the rest.

        Args:
            replicas: Which replicas.
            multiplexed_model_id: Which model.
        """
        having, fewest = self._having(multiplexed_model_id), self._with_fewest_models()
        ranks: list[list[RunningReplica]] = [[], [], []]
        for replica in replicas:
            id = replica.replica_id
            ranks[0 if id in having else 1 if id in fewest else 2].append(replica)
        return ranks

    def _having(self, model_id: str) -> set[ReplicaID]:
        found = self._replicas.values()
        return {each.replica_id for each in found if each._replica.has_model(model_id)}

    def _with_fewest_models(self) -> set[ReplicaID]:
        counts = {id: len(each.multiplexed_model_ids) for id, each in self._replicas.items()}
        least = min(counts.values(), default=0)
        return {id for id, count in counts.items() if count == least}
