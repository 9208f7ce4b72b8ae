"""A replica that is chosen before its request is known: `handle.choose_replica` and `dispatch`.

choose_replica ─► a place is taken at a replica, like a request's ─► dispatch: the request has it
                                                                  └► left without: it is given back
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import skate
from skate.serve._identity import new_tag
from skate.serve._requests import Failure, Request

if TYPE_CHECKING:
    from skate.serve._router import Router
    from skate.serve._seat import Seat


class ReplicaSelection:
    """A replica with room for one request, until the block of `choose_replica` is left.

    All replicas are on this machine; `port` is None, as they share that of the instance.
    """

    port: int | None = None
    availability_zone: str | None = None

    def __init__(self, place: Request, seat: Seat) -> None:
        self.replica_id = seat.tag
        self.node_id: str = skate.get_runtime_context().get_node_id()
        self.node_ip: str = skate.util.get_node_ip_address()
        self.deployment_id = place.router.id
        self.method_name, self.stream, self.model_id = place.method, place.stream, place.model_id
        self._place: Request | None = place
        self._seat = seat

    def use(self, request: Request) -> None:
        """Let a request have the place; ValueError if it is gone."""
        place, self._place = self._place, None
        if place is None:
            raise ValueError(
                "this selection was dispatched already, or its block has ended: choose another "
                "replica for another request"
            )
        request.fixed, request.seat = True, self._seat
        place.router.pass_on(place, request, self._seat)

    def give_back(self) -> None:
        """Let others have the place, if no request has it."""
        place, self._place = self._place, None
        if place is not None:
            place.router.free(place, self._seat)

    def __repr__(self) -> str:
        return f"ReplicaSelection(replica_id={self.replica_id!r})"


async def choose(
    router: Router, method_name: str, model_id: str, stream: bool
) -> ReplicaSelection:
    """Take a place at a replica, as soon as there is one, for a call of this method."""
    place = Request(router, new_tag(), method_name, (), {}, model_id, stream)
    place.reserves = True
    loop = asyncio.get_running_loop()
    taken = asyncio.Event()

    def tell() -> None:
        loop.call_soon_threadsafe(taken.set)

    place.when_settled(tell)
    router.assign(place)
    try:
        await taken.wait()
    except asyncio.CancelledError:
        router.cancel(place)
        if not isinstance(place.outcome, Failure):
            router.free(place, place.outcome)
        raise
    if isinstance(place.outcome, Failure):
        raise place.outcome.error
    return ReplicaSelection(place, place.outcome)
