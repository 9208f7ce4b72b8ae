"""A replica, as one router sees it."""

from __future__ import annotations

import pickle
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import cloudpickle

if TYPE_CHECKING:
    from skate.serve._identity import ReplicaHandle, ReplicaMethod
    from skate.serve._routing.requests import RoutedRequest

_MAX_REMEMBERED_MODELS = 16  # per replica, until news of them comes


def packed(told: dict[str, Any]) -> bytes:
    """Pickle what the user's code says of a replica, for those who look at it: the controller,
    which passes it on, neither imports its classes nor compares its values."""
    return cloudpickle.dumps(told) if told else b""


def unpacked(told: bytes) -> dict[str, Any]:
    """Return what was packed; nothing, where nothing was said."""
    return pickle.loads(told) if told else {}


class ReplicaEntry(NamedTuple):
    """A replica, as the controller tells routers of it."""

    tag: str
    actor: ReplicaHandle
    models: tuple[str, ...] = ()  # those that it has loaded
    stats: bytes = b""  # what its `record_routing_stats` returned last, by `packed`
    metadata: bytes = b""  # what its `record_replica_metadata` returned, likewise


class RoutedReplica:
    """A replica, as one router sees it."""

    __slots__ = (
        "_sent", "actor", "call", "closed", "full", "in_flight", "metadata", "models", "stats",
        "stream", "tag",
    )  # fmt: skip

    def __init__(self, entry: ReplicaEntry) -> None:
        actor = entry.actor
        self.tag: str = entry.tag
        self.actor: ReplicaHandle = actor
        self.call: ReplicaMethod = actor.handle_request
        self.stream: ReplicaMethod = actor.handle_stream
        self.models: frozenset[str] = frozenset(entry.models)
        self.stats: bytes = entry.stats
        self.metadata: bytes = entry.metadata
        # Models of requests that were sent there, of which no news came yet.
        self._sent: deque[str] = deque(maxlen=_MAX_REMEMBERED_MODELS)
        self.in_flight: set[RoutedRequest] = set()
        self.full: bool = False  # it refused, and has not said since that it has room
        self.closed: bool = False

    def has_room(self, max_ongoing_requests: int) -> bool:
        """Return whether it may take a request, as far as this router knows."""
        busy = self.full or self.closed
        return not busy and len(self.in_flight) < max_ongoing_requests

    def method_for(self, request: RoutedRequest) -> ReplicaMethod:
        """Return which method of the actor to call; a dispatched request is not refused."""
        if request.is_dispatched:
            actor = self.actor
            return actor.handle_stream_anyway if request.stream else actor.handle_anyway
        return self.stream if request.stream else self.call

    def has_model(self, model_id: str) -> bool:
        """Return whether the replica has it, or was sent a request for it just now."""
        return model_id in self.models or model_id in self._sent

    def count_models(self) -> int:
        return len(self.models.union(self._sent))

    def add(self, request: RoutedRequest) -> None:
        """Count in a request that is sent there."""
        self.in_flight.add(request)
        if request.model_id and not self.has_model(request.model_id):
            self._sent.append(request.model_id)

    def update(self, entry: ReplicaEntry) -> None:
        """Note the controller's news of the replica, above all which models it has."""
        self.stats = entry.stats
        told = frozenset(entry.models)
        if told == self.models:
            return
        self.models = told
        asked = {request.model_id for request in self.in_flight}
        self._sent = deque(asked - told - {""}, _MAX_REMEMBERED_MODELS)
