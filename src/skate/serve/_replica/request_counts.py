"""How many requests are at a replica, and whether it takes more."""

from __future__ import annotations

import asyncio
import time

from skate.serve._application.options import DeploymentOptions
from skate.serve._measurements import RequestTimes
from skate.serve._replica.load_reports import ReplicaLoad, Traffic


class RequestCounts:
    """The part of a replica that counts its requests, and refuses what is too much."""

    options: DeploymentOptions

    def __init__(self) -> None:
        self.ongoing = 0
        self.waiting = 0  # over HTTP, for room here
        self.stopping = False
        self.traffic = Traffic()
        self.times = RequestTimes()  # by route
        self._load: ReplicaLoad | None = None  # who is told, where the controller scales by it
        self._waiting_for_room: list[asyncio.Future[None]] = []
        self._idle: asyncio.Event | None = None

    @property
    def max_ongoing_requests(self) -> int:
        """How many requests may be here at once."""
        return self.options.max_ongoing_requests

    def refuses(self) -> bool:
        """Return whether no request is taken now."""
        return self.stopping or self.ongoing >= self.max_ongoing_requests

    async def has_room(self) -> None:
        """Return when a request would be taken again, or when none will ever be."""
        while self.ongoing >= self.max_ongoing_requests and not self.stopping:
            future = asyncio.get_running_loop().create_future()
            self._waiting_for_room.append(future)
            await future

    async def count_ongoing(self) -> int:
        """Return how many requests are here."""
        return self.ongoing

    def _one_more(self) -> None:
        self.ongoing += 1
        if self._load is not None:
            self._load.change(self.ongoing + self.waiting)

    def _one_less(self) -> None:
        self.ongoing -= 1
        if self._load is not None:
            self._load.change(self.ongoing + self.waiting)
        if self._waiting_for_room:
            self._tell_room()
        if self._idle is not None and not self.ongoing:
            self._idle.set()

    def _count_out(self, route: str, since: float, failure: str) -> None:
        """Count out a request that began at `since`, and its error if it ended with one."""
        seconds = time.monotonic() - since
        self.traffic.count(seconds)
        self.times.count((route,), seconds, failure)
        self._one_less()

    def _tell_room(self) -> None:
        waiting, self._waiting_for_room = self._waiting_for_room, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    async def _finish_all(self) -> None:
        """Take no more requests, and return when those that are here have ended."""
        self.stopping = True
        self._tell_room()
        if self.ongoing:
            self._idle = asyncio.Event()
            await self._idle.wait()
