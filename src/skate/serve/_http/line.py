"""Requests that wait in this process until its replica has room: first come, first served."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from skate.serve._replica import Replica


class Line:
    """Where a request waits that was accepted here, while all replicas are busy."""

    def __init__(self, replica: Replica) -> None:
        self._replica = replica
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._called = 0  # that may begin, and have not yet
        self._mover: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def room(self) -> int:
        """How many more could begin."""
        replica = self._replica
        return replica.max_ongoing_requests - replica.ongoing - self._called

    async def wait(self) -> bool:
        """Whether there is room now; False if there will be none, as the replica stops."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[None] = loop.create_future()
        self._waiting.append(turn)
        self._replica.waiting += 1
        if self._mover is None:
            self._mover = loop.create_task(self._move())
        try:
            await turn
        finally:
            self._replica.waiting -= 1
            if turn.done() and not turn.cancelled():
                self._called -= 1
        return not self._replica.stopping

    async def _move(self) -> None:
        """Call those in front, whenever there is room."""
        while self._waiting:
            await self._replica.has_room()
            while self._waiting and (self.room > 0 or self._replica.stopping):
                turn = self._waiting.popleft()
                if not turn.done():  # its client may have left
                    self._called += 1
                    turn.set_result(None)
            await asyncio.sleep(0)  # those who were called begin now
        self._mover = None
