"""The counts of a replica's requests, without a replica."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from skate.serve._application.options import DeploymentOptions
from skate.serve._replica.request_counts import RequestCounts


class Counts(RequestCounts):
    def __init__(self, most: int) -> None:
        super().__init__()
        self.options = DeploymentOptions()._replace(max_ongoing_requests=most)


async def begun(waiting: Awaitable[None]) -> asyncio.Task[None]:
    """Let something run until it waits."""
    task = asyncio.ensure_future(waiting)
    await asyncio.sleep(0)
    return task


def test_what_is_too_much_is_refused_until_there_is_room():
    async def main() -> None:
        counts = Counts(2)
        counts._one_more()
        assert not counts.refuses()
        await counts.has_room()
        counts._one_more()
        assert counts.refuses()
        waiting = await begun(counts.has_room())
        assert not waiting.done()
        counts._one_less()
        await waiting
        assert await counts.count_ongoing() == 1

    asyncio.run(main())


def test_a_replica_that_stops_finishes_what_is_there_and_takes_nothing_else():
    async def main() -> None:
        counts = Counts(1)
        counts._one_more()
        waiting = await begun(counts.has_room())
        ending = await begun(counts._finish_all())
        await waiting  # for others: there will be no room here
        assert counts.refuses()
        assert not ending.done()
        counts._one_less()
        await ending
        await counts._finish_all()  # at once, without requests

    asyncio.run(main())


class Load:
    def __init__(self) -> None:
        self.told: list[float] = []

    def change(self, ongoing: float) -> None:
        self.told.append(ongoing)


def test_the_load_that_is_told_counts_those_that_wait():
    counts, load = Counts(1), Load()
    counts._load = load
    counts.waiting = 3
    counts._one_more()
    counts._one_less()
    assert load.told == [4, 3]
