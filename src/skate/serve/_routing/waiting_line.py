"""Who is asked next when a replica may have room: requests in the order in which they came.

    a place is free ──► an offer to the first ──► takes it
                                          └─► has no use for it ──► an offer to the next one

As many offers are under way as there are places, however many wait: an answer does not wake all of
them. One that was sent anywhere else, or ends, passes its offer on as well.
"""

from __future__ import annotations

import asyncio
import itertools
from bisect import bisect_right, insort
from collections.abc import Callable
from typing import NamedTuple


class Offer(NamedTuple):
    """A place that may be free; whoever has it says whether it was taken, or passes it on."""

    number: int  # of who has it
    news: int  # when it was made


class QueuedRequest:
    """A request in the line, by its number, which waits for an offer."""

    __slots__ = ("awake", "number")

    def __init__(self, number: int) -> None:
        self.number = number
        self.awake: asyncio.Future[Offer | None] | None = None

    def wake(self, offer: Offer | None = None) -> None:
        """Have it go on, with an offer or without."""
        if self.awake is not None and not self.awake.done():
            self.awake.set_result(offer)


class WaitingLine:
    """Wakes those who wait for a place. On one event loop."""

    def __init__(self, count_places: Callable[[], int]) -> None:
        self.news = 0  # how often places became free
        self._count_places = count_places
        self._numbers = itertools.count()
        self._sleeping: dict[int, QueuedRequest] = {}
        self._order: list[int] = []  # of those who sleep
        self._offers = 0  # under way

    def join(self) -> QueuedRequest:
        """Return a new one, behind all others."""
        return QueuedRequest(next(self._numbers))

    async def sleep(self, queued: QueuedRequest, seen: int, longest: float) -> Offer | None:
        """Wait for an offer, for so many seconds at most.

        Args:
            queued: The request that waits.
            seen: The `news` when it last looked for a place.
            longest: After so many seconds it looks again without an offer.
        """
        loop = asyncio.get_running_loop()
        queued.awake = loop.create_future()
        self._sleeping[queued.number] = queued
        insort(self._order, queued.number)
        timer = loop.call_later(longest, queued.wake)
        if self.news != seen:
            self._offer_places()
        try:
            return await queued.awake
        except asyncio.CancelledError:
            if queued.awake.done() and not queued.awake.cancelled():
                self.pass_on(queued.awake.result())
            raise
        finally:
            timer.cancel()
            self._get_up(queued)

    def _get_up(self, queued: QueuedRequest) -> None:
        if self._sleeping.pop(queued.number, None) is not None:
            del self._order[bisect_right(self._order, queued.number) - 1]

    def tell(self) -> None:
        """Offer the places that there are."""
        self.news += 1
        self._offer_places()

    def wake_all(self) -> None:
        """Have all look again: there are other replicas."""
        self.news += 1
        for queued in self._sleeping.values():
            queued.wake()

    def took(self, offer: Offer | None) -> None:
        """Note that a place was taken, perhaps by an offer."""
        if offer is not None:
            self._offers -= 1
            if self.news != offer.news:
                self._offer_places()

    def pass_on(self, offer: Offer | None) -> None:
        """Make the offer, if there is one, to the next in the line; behind the last one it ends,
        unless places became free meanwhile: these may suit those before."""
        if offer is None:
            return
        self._offers -= 1
        if not self._make_offer(offer.number, offer.news) and self.news != offer.news:
            self._offer_places()

    def _offer_places(self) -> None:
        for _ in range(self._count_places() - self._offers):
            if not self._make_offer(-1, self.news):
                return

    def _make_offer(self, after: int, news: int) -> bool:
        """Make an offer to the first one behind a number; return whether there is one."""
        index = bisect_right(self._order, after)
        if index == len(self._order):
            return False
        queued = self._sleeping[self._order[index]]
        self._get_up(queued)
        self._offers += 1
        queued.wake(Offer(queued.number, news))
        return True
