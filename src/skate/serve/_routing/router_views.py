"""Requests and replicas as routers of users see them."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import skate
from skate.serve._identity import DeploymentID, ReplicaID
from skate.serve._routing.routed_replica import unpacked

if TYPE_CHECKING:
    from skate.serve._routing.routed_replica import RoutedReplica


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
