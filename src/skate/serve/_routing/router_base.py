"""The base of routers of users."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from skate.serve._identity import DeploymentID, ReplicaID
from skate.serve._routing.router_views import PendingRequest, RunningReplica


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
        """Note that a request was sent.

        Args:
            pending_request: The request.
            replica_id: Where it was sent to.
            result: The reference to the answer.
        """

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Note that a request was answered, well or badly.

        Args:
            replica_id: Who had it.
            internal_request_id: The id in its metadata.
        """

    def on_request_cancelled(self, internal_request_id: str) -> None:
        """Note that a request is not sent any more: it was cancelled, or has failed, before.

        Args:
            internal_request_id: The id in its metadata.
        """

    def on_replica_actor_died(self, replica_id: ReplicaID) -> None:
        """Note that a replica is gone.

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
    _newest_version = ""  # of the deployment, as the controller says

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
