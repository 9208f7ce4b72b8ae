"""Requests that wait in this process until its replica has room: first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.serve._replica import Replica

_DETOUR = 0.01  # seconds: what takes no longer to wait for is not worth a detour
_LONGEST = 0.1  # and from then on it is
_HANDSHAKE = 1.0  # seconds until the turn of a websocket whose client is gone goes to another


class Line:
    """Where a request waits that was accepted here, while all replicas are busy."""

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
    def patience(self) -> float:
        """How long waiting here beats the way to another process, which may be as busy."""
        return min(_LONGEST, max(_DETOUR, 3 * self._usual))

    async def wait(self, patience: float | None = None) -> bool:
        """Whether there is room now; False after `patience` seconds, or if the replica stops."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[bool] = loop.create_future()
        self._waiting.append(turn)
        self._replica.waiting += 1
        if self._mover is None:
            self._mover = loop.create_task(self._move())
        timer = None if patience is None else loop.call_later(patience, _give_up, turn)
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

    def reserve(self) -> None:
        """It is a websocket's turn, whose handshake is still to be read."""
        self._called += 1
        timer = asyncio.get_running_loop().call_later(_HANDSHAKE, self._forfeit)
        self._reserved.append(timer)

    def claim(self) -> bool:
        """Whether it was this websocket's turn already."""
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
