"""A replica, as one router sees it."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.serve._requests import Request

_REMEMBERED = 16  # models per replica, until news of them comes


class Seat:
    """A replica, as one router sees it."""

    __slots__ = (
        "_sent", "actor", "call", "closed", "full", "in_flight", "models", "stream", "tag",
    )  # fmt: skip

    def __init__(self, tag: str, actor: Any, models: Iterable[str]) -> None:
        self.tag = tag
        self.actor = actor
        self.call = actor.handle_request
        self.stream = actor.handle_stream
        self.models = frozenset(models)
        self._sent: deque[str] = deque(maxlen=_REMEMBERED)  # models, of which no news came yet
        self.in_flight: set[Request] = set()
        self.full = False  # it refused, and has not said since that it has room
        self.closed = False

    def method_for(self, request: Request) -> Any:
        """What of the actor to call; a request that was promised its place is not refused."""
        if request.fixed:
            actor = self.actor
            return actor.handle_stream_anyway if request.stream else actor.handle_anyway
        return self.stream if request.stream else self.call

    def has_model(self, model_id: str) -> bool:
        """Whether the replica has it, or was sent a request for it just now."""
        return model_id in self.models or model_id in self._sent

    def count_models(self) -> int:
        return len(self.models.union(self._sent))

    def add(self, request: Request) -> None:
        """A request goes there."""
        self.in_flight.add(request)
        if request.model_id and not self.has_model(request.model_id):
            self._sent.append(request.model_id)

    def tell_models(self, models: Iterable[str]) -> None:
        """News of the models that the replica has."""
        told = frozenset(models)
        if told == self.models:
            return
        self.models = told
        asked = {request.model_id for request in self.in_flight}
        self._sent = deque(asked - told - {""}, _REMEMBERED)
