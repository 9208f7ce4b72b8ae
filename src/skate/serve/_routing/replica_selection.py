"""A replica that is chosen before its request is known: `handle.choose_replica` and `dispatch`.

choose_replica ─► room is reserved at a replica ─► dispatch: the request has it
                                                └► left without: it is given back
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import skate
from skate.serve._identity import new_tag
from skate.serve._routing.requests import RequestFailure, RoutedRequest
from skate.serve._routing.routed_replica import RoutedReplica, unpacked

if TYPE_CHECKING:
    from skate.serve._routing.router import Router


class ReplicaSelection:
    """A replica with room for one request, until the block of `choose_replica` is left.

    All replicas are on this machine; `port` is None, as they share that of the instance.
    """

    port: int | None = None
    availability_zone: str | None = None

    def __init__(self, reservation: RoutedRequest, replica: RoutedReplica) -> None:
        self.replica_id: str = replica.tag
        self.node_id: str = skate.get_runtime_context().get_node_id()
        self.node_ip: str = skate.util.get_node_ip_address()
        self.replica_metadata: dict[str, Any] = unpacked(replica.metadata)
        self.deployment_id = reservation.router.id
        self.method_name: str = reservation.method
        self.stream: bool = reservation.stream
        self.model_id: str = reservation.model_id
        self._reservation: RoutedRequest | None = reservation
        self._replica = replica

    def use(self, request: RoutedRequest) -> None:
        """Let a request have the reserved room.

        Raises:
            ValueError: If another request had it, or it was given back.
        """
        reservation, self._reservation = self._reservation, None
        if reservation is None:
            raise ValueError(
                "this selection was dispatched already, or its block has ended: choose another "
                "replica for another request"
            )
        request.is_dispatched, request.replica = True, self._replica
        reservation.router.transfer(reservation, request, self._replica)

    def give_back(self) -> None:
        """Let others have the room, if no request has it."""
        reservation, self._reservation = self._reservation, None
        if reservation is not None:
            reservation.router.release(reservation, self._replica)

    def __repr__(self) -> str:
        return f"ReplicaSelection(replica_id={self.replica_id!r})"


async def choose(
    router: Router, method_name: str, model_id: str, stream: bool
) -> ReplicaSelection:
    """Reserve room at a replica, as soon as there is some, for a call of this method."""
    reservation = RoutedRequest(router, new_tag(), method_name, (), {}, model_id, stream)
    reservation.is_reservation = True
    loop = asyncio.get_running_loop()
    taken = asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(taken.set)

    reservation.when_settled(tell)
    router.assign(reservation)
    try:
        await taken.wait()
    except asyncio.CancelledError:
        router.cancel(reservation)
        if not isinstance(reservation.outcome, RequestFailure):
            router.release(reservation, reservation.outcome)
        raise
    if isinstance(reservation.outcome, RequestFailure):
        raise reservation.outcome.error
    return ReplicaSelection(reservation, reservation.outcome)
