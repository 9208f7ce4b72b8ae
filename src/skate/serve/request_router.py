"""Routers of your own: classes that say which replicas a request may go to.

Derive from `RequestRouter`, define `choose_replicas`, and name the class in
`RequestRouterConfig(request_router_class=...)`. Every process with a handle has an instance; its
methods run on an event loop of their own. The mixins add what many routers want to know.
"""

from __future__ import annotations

import asyncio
import random
import time
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import skate
from skate._core.public_names import name_publicly
from skate.serve._identity import DeploymentID, ReplicaID
from skate.serve._routing.routed_replica import unpacked

if TYPE_CHECKING:
    from skate.serve._routing.routed_replica import RoutedReplica

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


@dataclass
class RequestMetadata:
    """What is known of a request besides its arguments.

    Args:
        request_id: Its id, which the client may have given.
        internal_request_id: One that no other request has.
        call_method: The method that is called.
        route: The prefix of the application, for a request over HTTP.
        app_name: The application.
        multiplexed_model_id: The model that it is for.
        session_id: The session that it belongs to.
        is_streaming: Whether its answer comes in parts.
        is_http_request: Whether it came over HTTP.
    """

    request_id: str
    internal_request_id: str
    call_method: str = "__call__"
    route: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    session_id: str = ""
    is_streaming: bool = False
    is_http_request: bool = False


@dataclass
class RequestRoutingContext:
    """What was tried for a request so far."""

    tried_models: bool = False
    tried_fewest_models: bool = False
    should_backoff: bool = False


@dataclass(eq=False)
class PendingRequest:
    """A request that waits for a replica.

    Args:
        args: Arguments of the call; of a request over HTTP, its ASGI scope.
        kwargs: Named ones.
        metadata: What else is known of it.
        created_at: When it came, as `time.time()` says it.
        routing_context: What was tried for it so far; the mixins note it there.
    """

    args: list[Any]
    kwargs: dict[str, Any]
    metadata: RequestMetadata
    created_at: float = field(default_factory=time.time)
    routing_context: RequestRoutingContext = field(default_factory=RequestRoutingContext)


class RunningReplica:
    """A replica that requests can be sent to."""

    def __init__(self, id: DeploymentID, replica: RoutedReplica, max_ongoing: int) -> None:
        """Show `replica` of the deployment `id`."""
        self._replica = replica
        self._id = ReplicaID(replica.tag, id)
        self._max_ongoing = max_ongoing

    @property
    def replica_id(self) -> ReplicaID:
        """The replica's id."""
        return self._id

    @property
    def actor_id(self) -> Any:
        """The id of its actor."""
        return self._replica.actor._actor_id

    @property
    def node_id(self) -> str:
        """The machine that it is on: this one."""
        return skate.get_runtime_context().get_node_id()

    @property
    def availability_zone(self) -> str | None:
        """None: there is one machine."""
        return None

    @property
    def multiplexed_model_ids(self) -> set[str]:
        """The models that it has loaded."""
        return set(self._replica.models)

    @property
    def routing_stats(self) -> dict[str, Any]:
        """What `record_routing_stats` of the deployment returned last."""
        return unpacked(self._replica.stats)

    @property
    def replica_metadata(self) -> dict[str, Any]:
        """What `record_replica_metadata` of the deployment returned when the replica started."""
        return unpacked(self._replica.metadata)

    @property
    def max_ongoing_requests(self) -> int:
        """How many requests it answers at a time."""
        return self._max_ongoing

    async def get_queue_len(self, *, deadline_s: float | None = None) -> int:
        """Ask the replica how many requests it has.

        Args:
            deadline_s: After how many seconds to give up with a TimeoutError.
        """
        return await asyncio.wait_for(
            _resolved(self._replica.actor.count_ongoing.remote()), deadline_s
        )

    def __repr__(self) -> str:
        return f"RunningReplica({self._id.unique_id!r})"


async def _resolved(ref: Any) -> int:
    return int(await ref)


class QueueLengths:
    """How many requests of this process are at each replica."""

    def __init__(self, router: RequestRouter) -> None:
        self._router = router

    def get(self, replica_id: ReplicaID) -> int | None:
        """Return the number, or None for a replica that is not there."""
        replica = self._router.curr_replicas.get(replica_id)
        return None if replica is None else len(replica._replica.in_flight)


class RouterHooks:
    """What Serve calls of a router, which need not do anything."""

    def initialize_state(self, *args: Any, **kwargs: Any) -> None:
        """Prepare what the router needs.

        Args:
            args: None; with them, type checkers take any parameters of a subclass.
            kwargs: The `request_router_kwargs` of the `RequestRouterConfig`.
        """

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """Called when a request was sent.

        Args:
            pending_request: The request.
            replica_id: Where it was sent to.
            result: The reference to the answer.
        """

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Called when a request was answered, well or badly.

        Args:
            replica_id: Who had it.
            internal_request_id: The id in its metadata.
        """

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Called when a replica is found to be gone.

        Args:
            replica_id: Which one.
        """


class RequestRouter(RouterHooks, ABC):
    """Chooses replicas for requests; the base of your own routers.

    An instance is made by Serve, in every process with a handle to the deployment.

    Args:
        deployment_id: Which deployment the requests are for.
        settings: For the mixins.
    """

    takes_turns = False  # whether requests have their replicas in the order in which they came

    def __init__(self, deployment_id: DeploymentID, **settings: object) -> None:
        self._deployment_id = deployment_id
        self._replicas: dict[ReplicaID, RunningReplica] = {}
        self._replicas_list: list[RunningReplica] = []
        self._replica_id_set: set[ReplicaID] = set()
        self._replica_queue_len_cache = QueueLengths(self)

    @abstractmethod
    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Say which replicas a request may go to.

        It goes to the least busy one, with room, of the first list that has one. Where none has
        room, or there is no list, it waits, and this is asked again.

        Args:
            candidate_replicas: All replicas that there are.
            pending_request: The request.

        Returns:
            Lists of replicas, the best first.
        """

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Note which replicas there are from now on.

        Args:
            replicas: All of them.
        """
        self._replicas = {replica.replica_id: replica for replica in replicas}
        self._replicas_list = list(replicas)
        self._replica_id_set = set(self._replicas)

    def select_available_replicas(
        self, candidates: list[RunningReplica] | None = None
    ) -> list[RunningReplica]:
        """Return the replicas that have room.

        Args:
            candidates: Among which; all, if it is left out.
        """
        among = self._replicas_list if candidates is None else candidates
        return [each for each in among if each._replica.has_room(each.max_ongoing_requests)]

    @property
    def curr_replicas(self) -> dict[ReplicaID, RunningReplica]:
        """The replicas that there are, by their ids."""
        return self._replicas

    @property
    def app_name(self) -> str:
        """The application of the deployment."""
        return self._deployment_id.app_name

    @property
    def replica_queue_len_cache(self) -> QueueLengths:
        """How many requests of this process are at each replica."""
        return self._replica_queue_len_cache


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
