"""Waiting for room in a replica, without one."""

from __future__ import annotations

import asyncio
from typing import Any

from skate.serve._http.admission import AdmissionQueue


class Replica:
    """Has room for one request."""

    max_ongoing_requests = 1

    def __init__(self) -> None:
        self.ongoing = 1
        self.waiting = 0
        self.stopping = False
        self.changed = asyncio.Event()

    async def has_room(self) -> None:
        while self.ongoing and not self.stopping:
            self.changed.clear()
            await self.changed.wait()

    def end(self) -> None:
        self.ongoing -= 1
        self.changed.set()


def full_replica() -> tuple[Any, AdmissionQueue]:
    replica: Any = Replica()
    return replica, AdmissionQueue(replica)


def test_first_come_first_served() -> None:
    async def run() -> list[int]:
        replica, queue = full_replica()
        order: list[int] = []

        async def request(number: int) -> None:
            assert await queue.wait()
            replica.ongoing += 1
            order.append(number)
            await asyncio.sleep(0)
            replica.end()

        requests = [asyncio.ensure_future(request(number)) for number in range(4)]
        await asyncio.sleep(0)
        assert (len(queue), replica.waiting, order) == (4, 4, [])
        requests[1].cancel()  # its client left
        replica.end()
        await asyncio.gather(*requests, return_exceptions=True)
        assert (len(queue), replica.waiting, queue.room) == (0, 0, 1)
        return order

    assert asyncio.run(run()) == [0, 2, 3]


def test_patience_ends() -> None:
    async def run() -> bool:
        replica, queue = full_replica()
        found = await queue.wait(seconds=0.001)
        assert replica.waiting == 0
        replica.end()
        return found

    assert not asyncio.run(run())


def test_nobody_waits_for_a_replica_that_stops() -> None:
    async def run() -> bool:
        replica, queue = full_replica()
        waiting = asyncio.ensure_future(queue.wait())
        await asyncio.sleep(0)
        replica.stopping = True
        replica.changed.set()
        return await waiting

    assert not asyncio.run(run())
