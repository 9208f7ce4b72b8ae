"""Whether, when and where a request over HTTP may begin.

A replica that is full lets requests wait (`AdmissionQueue`): first come, first served. Those that
another replica can have go there; the connection of a websocket can, until it is answered:

    this replica's queue ──┐
    another replica ───────┼── who has room first?
    another replica ───────┘
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

import skate
from skate.exceptions import SkateError
from skate.serve._client import router_of
from skate.serve.exceptions import BackPressureError

if TYPE_CHECKING:
    from skate.serve._identity import ReplicaHandle
    from skate.serve._replica.actor import Replica

_DETOUR_SECONDS = 0.01  # what takes no longer to wait for is not worth a detour
_LONGEST_WAIT_SECONDS = 0.1  # and from then on it is
_HANDSHAKE_SECONDS = 1.0  # until the turn of a websocket whose client is gone goes to another


class Admission:
    """Decides about the requests that arrive at one replica."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._id = replica.deployment_id
        self._queue = AdmissionQueue(replica)

    def prefers_another(self, model_id: str) -> bool:
        """Return whether another replica has this model, or fewer of them, and room; or whether
        that is for a router of the user's to say."""
        replica = self._replica
        if replica.options.router is not None:
            return True
        if not model_id or model_id in replica.models:
            return False
        return router_of(self._id).prefers_another(replica.id.unique_id, model_id)

    def takes(self, kind: str) -> bool:
        """Return whether a request ("http" or "websocket") may begin now."""
        if kind == "websocket" and self._queue.claim():
            return True
        return self.has_room_now()

    def has_room_now(self) -> bool:
        """Return whether there is room, and nobody who came earlier waits for it."""
        return self._queue.room > 0 and not self._queue and not self._replica.stopping

    async def finds_room(self, kind: str) -> bool:
        """Wait until the request may begin here; False if another replica should have it.

        A websocket that was not passed on before stays where its connection is.

        Raises:
            BackPressureError: If too many wait already.
        """
        replica, queue = self._replica, self._queue
        if replica.stopping:
            return False
        tag, router = replica.id.unique_id, router_of(self._id)
        if kind == "http" and router.has_room_besides(tag):
            if await queue.wait(queue.usual_wait):
                return True
            router.note_full(tag)
            return False
        most, waiting = replica.options.max_queued_requests, self._count_waiting()
        if 0 <= most <= waiting:
            pressure = replica.options.backpressure
            raise BackPressureError(waiting, most, pressure.status_code, pressure.retry_after_s)
        return await queue.wait()

    def _count_waiting(self) -> int:
        return len(self._queue) + router_of(self._id).waiting()

    async def address_with_room(self) -> str | None:
        """Wait for room for a websocket; return the address of the replica that has it, or None
        for this one. Where too many wait, only room that there is now counts."""
        most = self._replica.options.max_queued_requests
        waits = not 0 <= most <= self._count_waiting()
        router = router_of(self._id)
        while True:
            changed = asyncio.Event()
            with router.notifying(_setter(changed)):
                others = router.actors(besides=self._replica.id.unique_id)
                address = await _first_with_room(others, self._queue, changed, waits)
            if address is not None or not waits:
                return address or None


class AdmissionQueue:
    """Requests that were accepted here, and wait until the replica has room."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: deque[asyncio.Future[bool]] = deque()
        self._called = 0  # that may begin, and have not yet
        self._reserved: deque[asyncio.TimerHandle] = deque()  # for those of them who come later
        self._mover: asyncio.Task[None] | None = None
        self._usual = 0.0  # seconds until it is someone's turn, of late

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many more could begin."""
        replica = self._replica
        return replica.max_ongoing_requests - replica.ongoing - self._called

    @property
    def usual_wait(self) -> float:
        """For how many seconds waiting here beats the way to another process, as busy maybe."""
        return min(_LONGEST_WAIT_SECONDS, max(_DETOUR_SECONDS, 3 * self._usual))

    async def wait(self, seconds: float | None = None) -> bool:
        """Wait for a turn; False after so many seconds, or if the replica stops."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(turn)
        self._replica.waiting += 1
        if self._mover is None:
            self._mover = loop.create_task(self._move())
        timer = None if seconds is None else loop.call_later(seconds, _give_up, turn)
        called, start = False, loop.time()
        try:
            called = await turn
            self._usual += 0.1 * (loop.time() - start - self._usual)
        finally:
            self._replica.waiting -= 1
            if timer is not None:
                timer.cancel()
            if turn.done() and not turn.cancelled() and turn.result():
                self._called -= 1
        return called and not self._replica.stopping

    async def reserve_turn(self) -> None:
        """Wait for the turn of a websocket, whose handshake is still to be read."""
        if await self.wait():
            self._called += 1
            timer = asyncio.get_running_loop().call_later(_HANDSHAKE_SECONDS, self._forfeit)
            self._reserved.append(timer)

    def claim(self) -> bool:
        """Take a reserved turn; False if there is none."""
        if not self._reserved:
            return False
        self._reserved[0].cancel()
        self._forfeit()
        return True

    def _forfeit(self) -> None:
        self._reserved.popleft()
        self._called -= 1

    async def _move(self) -> None:
        """Call those in front, whenever there is room."""
        while self._waiting:
            await self._replica.has_room()
            while self._waiting and (self.room > 0 or self._replica.stopping):
                turn = self._waiting.popleft()
                if not turn.done():  # its client may have left
                    self._called += 1
                    turn.set_result(True)
            await asyncio.sleep(0)  # those who were called begin now
        self._mover = None


def _give_up(turn: asyncio.Future[bool]) -> None:
    if not turn.done():
        turn.set_result(False)


async def _first_with_room(
    others: list[ReplicaHandle], queue: AdmissionQueue, changed: asyncio.Event, waits: bool
) -> str | None:
    """Return the address of whoever has room first, "" for this replica; None if the replicas
    changed, or if none has room now and nobody `waits`."""
    offers: set[asyncio.Future[str]] = {
        asyncio.ensure_future(_offer(other, waits)) for other in others
    }
    here = asyncio.ensure_future(queue.reserve_turn()) if waits else None
    news = asyncio.ensure_future(changed.wait()) if waits else None
    pending: set[asyncio.Future[object]] = {*offers, *filter(None, (here, news))}  # type: ignore[arg-type]
    try:
        while pending and not (news and news.done()):
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if here in done:
                return ""
            for offer in [offer for offer in offers if offer in done]:
                if address := offer.result():
                    return address
        return None
    finally:
        for task in pending:
            task.cancel()


async def _offer(other: ReplicaHandle, waits: bool) -> str:
    ref = other.address_with_room.remote(waits)
    try:
        return str(await ref)
    except SkateError:
        return ""  # it is gone
    except asyncio.CancelledError:
        skate.cancel(ref)
        raise


def _setter(event: asyncio.Event) -> Callable[[], None]:
    loop = asyncio.get_running_loop()

    def set_event() -> None:
        loop.call_soon_threadsafe(event.set)

    return set_event
