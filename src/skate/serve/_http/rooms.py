"""Where a websocket finds room: until it is answered, its connection can go to another replica.

this replica's line ──┐
another replica ──────┼── who has room first?
another replica ──────┘
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import skate
from skate.exceptions import SkateError
from skate.serve._client import router_of

if TYPE_CHECKING:
    from skate.serve._http.line import Line
    from skate.serve._replica import Replica


async def place_with_room(replica: Replica, line: Line, waits: bool) -> str | None:
    """The place of another replica that has room; None when it is the turn of this one.

    Unless it `waits`, only room that there is now counts, and None means that there is none.
    """
    router = router_of(replica.deployment_id)
    while True:
        changed = asyncio.Event()
        with router.watched(_setter(changed)):
            actors = router.replicas(besides=replica.id.unique_id)
            place = await _first(actors, line, changed, waits)
        if place is not None or not waits:
            return place or None


async def _first(actors: list[Any], line: Line, changed: asyncio.Event, waits: bool) -> str | None:
    """The place of whoever has room first, "" for here; None if others should be asked."""
    offers: set[asyncio.Future[str]] = {
        asyncio.ensure_future(_offer(actor, waits)) for actor in actors
    }
    here = asyncio.ensure_future(_turn(line)) if waits else None
    news = asyncio.ensure_future(changed.wait()) if waits else None
    pending: set[asyncio.Future[Any]] = {*offers, *filter(None, (here, news))}
    try:
        while pending and not (news and news.done()):
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if here in done:
                return ""
            for offer in offers & done:
                if place := offer.result():
                    return place
        return None
    finally:
        for task in pending:
            task.cancel()


async def _turn(line: Line) -> None:
    if await line.wait():
        line.reserve()


async def _offer(actor: Any, waits: bool) -> str:
    ref = actor.place_with_room.remote(waits)
    try:
        return str(await ref)
    except SkateError:
        return ""  # it is gone
    except asyncio.CancelledError:
        skate.cancel(ref)
        raise


def _setter(event: asyncio.Event) -> Any:
    loop = asyncio.get_running_loop()
    return lambda: loop.call_soon_threadsafe(event.set)
