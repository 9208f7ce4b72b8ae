"""Offers of places: to whom they are made, and that none is lost."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

from skate.serve._routing.waiting_line import Offer, WaitingLine
from tests.support import PATIENCE


class Line(WaitingLine):
    """With places that a test gives away."""

    def __init__(self, places: int = 0) -> None:
        super().__init__(lambda: self.places)
        self.places = places
        self.asked: list[int] = []

    def free(self, places: int = 1) -> None:
        self.places += places
        self.tell()

    async def wait(self, takes: bool = True) -> int:
        """Wait in the line, and take the first offer, or never one."""
        waiter, offer = self.join(), None
        while offer is None:
            offer = await self.sleep(waiter, self.news, PATIENCE)
            self.asked.append(waiter.number)
            if not takes:
                self.pass_on(offer)
                offer = None
        self.places -= 1
        self.took(offer)
        return waiter.number


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, PATIENCE))


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_one_is_woken_for_a_place_and_in_order() -> None:
    async def test() -> None:
        line = Line()
        tasks = [asyncio.create_task(line.wait()) for _ in range(5)]
        await settle()
        for _ in range(5):
            line.free()
            await settle()
        assert line.asked == [await task for task in tasks] == [0, 1, 2, 3, 4]

    run(test())


def test_who_has_no_use_for_a_place_passes_it_on() -> None:
    async def test() -> None:
        line = Line()
        idle = [asyncio.create_task(line.wait(takes=False)) for _ in range(2)]
        taking = asyncio.create_task(line.wait())
        await settle()
        line.free(2)
        assert await taking == 2
        await settle()
        asked = len(line.asked)
        await settle()
        assert len(line.asked) == asked  # nobody is woken again, for a place that nobody wants
        for task in idle:
            task.cancel()

    run(test())


def test_an_offer_to_one_that_ends_is_the_next_ones() -> None:
    async def test() -> None:
        line = Line()
        first, second = (asyncio.create_task(line.wait()) for _ in range(2))
        await settle()
        line.free()
        first.cancel()  # before it has seen its offer
        assert await second == 1

    run(test())


def test_a_place_that_becomes_free_while_one_looks_is_not_missed() -> None:
    async def test() -> None:
        line = Line()
        waiter, seen = line.join(), line.news
        line.free()
        assert await line.sleep(waiter, seen, PATIENCE) == Offer(0, 1)

    run(test())


def test_news_while_an_offer_is_under_way_reach_those_before() -> None:
    async def test() -> None:
        line = Line()
        first, last = line.join(), line.join()
        sleeping = [asyncio.create_task(line.sleep(each, 0, PATIENCE)) for each in (first, last)]
        await settle()
        line.free()
        offer = await sleeping[0]
        again = asyncio.create_task(line.sleep(first, line.news, PATIENCE))
        line.pass_on(offer)
        offer = await sleeping[1]
        await settle()
        line.tell()  # a place in exchange for another: there is still one, which has an offer
        line.pass_on(offer)
        assert await again == Offer(0, 2)

    run(test())


def test_all_look_again_after_a_time_or_when_told() -> None:
    async def test() -> None:
        line = Line()
        assert await line.sleep(line.join(), 0, 0.001) is None
        sleeping = [asyncio.create_task(line.sleep(line.join(), 0, PATIENCE)) for _ in range(3)]
        await settle()
        line.wake_all()
        assert [await task for task in sleeping] == [None] * 3

    run(test())
