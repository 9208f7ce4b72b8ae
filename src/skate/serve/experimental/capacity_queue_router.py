"""Replicas that a `CapacityQueue` says have a free place."""

from __future__ import annotations

import asyncio
import random
from typing import Any, NamedTuple

import skate
from skate._core.argument_checks import whole_number
from skate._core.futures import value_now, when_done
from skate.exceptions import SkateError
from skate.serve._identity import NAMESPACE, DeploymentID
from skate.serve._replica.deployment_actors import ActorKey, find_all
from skate.serve.request_router import PendingRequest, ReplicaID, RequestRouter, RunningReplica

__all__ = ["CapacityQueueRouter"]


class CapacityQueueRouter(RequestRouter):
    """Asks a `CapacityQueue` for a place before it sends a request.

    Where the queue cannot be reached, it asks again after the pauses of the `RequestRouterConfig`,
    and after `max_fault_retries` of these takes the less busy of two replicas.
    """

    def initialize_state(self, capacity_queue_actor_name: str, max_fault_retries: int = 3) -> None:
        """Note whom to ask.

        Args:
            capacity_queue_actor_name: The queue's name in `deployment_actors`.
            max_fault_retries: How often to ask again a queue that cannot be reached.

        Raises:
            TypeError: If `max_fault_retries` is no whole number.
            ValueError: If it is below 0.
        """
        self._queue_name = capacity_queue_actor_name
        self._max_faults = whole_number("max_fault_retries", max_fault_retries, 0)
        self._queue: Any = None
        self._queue_version = ""
        self._faults: dict[str, int] = {}  # of requests that were not sent yet
        self._places: dict[str, list[_Place]] = {}  # of requests that wait or run

    async def choose_replicas(
        self,
        candidate_replicas: list[RunningReplica],
        pending_request: PendingRequest | None = None,
    ) -> list[list[RunningReplica]]:
        """Return the replica that the queue names; none, if it has no free place.

        A request that did not find room there after all keeps the place meanwhile, so that the
        queue names another one.

        Args:
            candidate_replicas: All replicas that there are.
            pending_request: The request.
        """
        if pending_request is None:
            return self._any_two(candidate_replicas)
        request = pending_request.metadata.internal_request_id
        if self._has_given_up(request):
            return self._any_two(candidate_replicas)
        try:
            place = await self._acquire()
        except (SkateError, ValueError):  # it has died, or does not run yet
            self._queue = None
            self._faults[request] = self._faults.get(request, 0) + 1
            return self._any_two(candidate_replicas) if self._has_given_up(request) else []
        self._faults.pop(request, None)
        if place is None:
            self._give_back(request)  # what it was not let in with may be all that is free
            return []
        named = [each for each in candidate_replicas if each.replica_id.unique_id == place.replica]
        if not named:  # this process has yet to be told of it
            place.release()
            return []
        self._places.setdefault(request, []).append(place)
        return [named]

    def _has_given_up(self, request: str) -> bool:
        return self._faults.get(request, 0) > self._max_faults

    def _any_two(self, replicas: list[RunningReplica]) -> list[list[RunningReplica]]:
        return [random.sample(replicas, min(2, len(replicas)))]

    def update_replicas(self, replicas: list[RunningReplica]) -> None:
        """Note which replicas there are from now on, and look for the queue of their version.

        Args:
            replicas: All of them.
        """
        super().update_replicas(replicas)
        if self._queue_version != self._newest_version:
            self._queue = None

    async def _acquire(self) -> _Place | None:
        if self._queue is None:
            key = _find(self._deployment_id, self._newest_version, self._queue_name)
            self._queue = skate.get_actor(str(key), namespace=NAMESPACE)
            self._queue_version = key.version
        queue = self._queue
        asked = queue.acquire.remote()
        try:
            replica: str | None = await asked
        except asyncio.CancelledError:  # nobody needs the place any more
            skate.cancel(asked)
            when_done(asked, lambda: _release_unused(queue, asked))
            raise
        return None if replica is None else _Place(queue, replica)

    def _give_back(self, request: str) -> None:
        for place in self._places.pop(request, ()):
            place.release()

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        """Give the place of a request back, which has ended.

        Args:
            replica_id: Who had it.
            internal_request_id: The request.
        """
        self._give_back(internal_request_id)

    def on_request_cancelled(self, internal_request_id: str) -> None:
        """Give the place of a request back, which is not sent any more.

        Args:
            internal_request_id: The request.
        """
        self._faults.pop(internal_request_id, None)
        self._give_back(internal_request_id)

    def on_request_routed(
        self, pending_request: PendingRequest, replica_id: ReplicaID, result: Any
    ) -> None:
        """Forget what went wrong before the request was sent.

        Args:
            pending_request: The request.
            replica_id: Where it was sent to.
            result: The reference to the answer.
        """
        self._faults.pop(pending_request.metadata.internal_request_id, None)


class _Place(NamedTuple):
    """A place of a replica, and the queue that gave it: there may be two during an update."""

    queue: Any
    replica: str

    def release(self) -> None:
        self.queue.release.remote(self.replica)


def _release_unused(queue: Any, asked: Any) -> None:
    try:
        replica: str | None = value_now(asked)
    except SkateError:
        return  # the queue was told in time
    if replica is not None:
        _Place(queue, replica).release()


def _find(id: DeploymentID, version: str, name: str) -> ActorKey:
    """Find the queue of a version of a deployment, or the one that was started last.

    Replicas of the version, which start its own, may have yet to come.

    Raises:
        ValueError: If there is none.
    """
    found = [key for key in find_all() if (key.deployment_id, key.name) == (id, name)]
    if not found:
        raise ValueError(f"{id} has no actor {name!r} in its deployment_actors")
    own = ActorKey(id, version, name)
    return own if own in found else found[-1]
