"""A replica, as one router sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.serve._identity import ReplicaHandle, ReplicaMethod
    from skate.serve._routing.requests import RoutedRequest

_MAX_REMEMBERED_MODELS = 16  # per replica, until news of them comes


class RoutedReplica:
    """A replica, as one router sees it."""

    __slots__ = (
        "_sent", "actor", "call", "closed", "full", "in_flight", "models", "stream", "tag",
    )  # fmt: skip

    def __init__(self, tag: str, actor: ReplicaHandle, models: Iterable[str]) -> None:
        self.tag: str = tag
        self.actor: ReplicaHandle = actor
        self.call: ReplicaMethod = actor.handle_request
        self.stream: ReplicaMethod = actor.handle_stream
        self.models: frozenset[str] = frozenset(models)
        # Models of requests that were sent there, of which no news came yet.
        self._sent: deque[str] = deque(maxlen=_MAX_REMEMBERED_MODELS)
        self.in_flight: set[RoutedRequest] = set()
        self.full: bool = False  # it refused, and has not said since that it has room
        self.closed: bool = False

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

    def update_models(self, models: Iterable[str]) -> None:
        """Note which models the replica has, by the controller's news."""
        told = frozenset(models)
        if told == self.models:
            return
        self.models = told
        asked = {request.model_id for request in self.in_flight}
        self._sent = deque(asked - told - {""}, _MAX_REMEMBERED_MODELS)
