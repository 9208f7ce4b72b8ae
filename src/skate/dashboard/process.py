"""The process that serves the page: until nobody needs it any more."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

import uvicorn

from skate.dashboard.app import PageSource, Visits, page
from skate.dashboard.launch import STAYS
from skate.dashboard.session_source import SessionSource
from skate.engine.sessions import Session

_LOOK_SECONDS = 0.5
_STILL_LOOKS_SECONDS = 5.0  # since the last look: somebody has the page open
_LINGER_SECONDS = 150.0  # after the driver's end; browsers let hidden pages ask once a minute
_IDLE_SECONDS = 600.0  # without a look, while the driver goes on and can start another one
_LARGEST_HEAD_BYTES = 64 * 1024
_REQUEST_SECONDS = 10.0  # until a request is complete: any user of the machine can connect


def serve(
    listener: socket.socket,
    source: PageSource,
    token: str,
    visits: Visits,
    is_needed: Callable[[], bool],
) -> None:
    """Serve the page.

    Args:
        listener: Where; it is listened to already.
        source: What is shown.
        token: What must be in the address.
        visits: Is told of each look.
        is_needed: Asked twice a second; the page ends when it says no.
    """
    config = uvicorn.Config(
        page(source, token, visits),
        http="h11",  # the other one reads heads without end
        h11_max_incomplete_event_size=_LARGEST_HEAD_BYTES,
        log_config=None,
        log_level="error",  # warnings are about what others send
        access_log=False,
        lifespan="off",
        ws="none",
        timeout_graceful_shutdown=1,
        server_header=False,
    )
    server = uvicorn.Server(config)

    async def run() -> None:
        watching = asyncio.create_task(watch())
        await server.serve(sockets=[listener])
        watching.cancel()

    async def watch() -> None:
        connections = SlowConnections()
        while await asyncio.to_thread(is_needed):
            connections.end(server.server_state.connections, time.monotonic())
            await asyncio.sleep(_LOOK_SECONDS)
        server.should_exit = True

    asyncio.run(run())


class SlowConnections:
    """Ends connections on which no request comes, or never all of one.

    Without that, somebody who knows no token could hold every descriptor of the process.
    """

    def __init__(self) -> None:
        self._waiting: dict[Any, tuple[object, float]] = {}  # after which request, since when

    def end(self, connections: Iterable[Any], now: float) -> None:
        """End those that have waited for too long.

        Args:
            connections: uvicorn's, all that there are.
            now: The time.
        """
        waiting: dict[Any, tuple[object, float]] = {}
        for one in connections:
            last = one.cycle
            if last is not None and not last.response_complete:
                continue
            before, since = self._waiting.get(one, (last, now))
            waiting[one] = (last, since if before is last else now)
            if now - waiting[one][1] > _REQUEST_SECONDS:
                one.transport.abort()
        self._waiting = waiting


class Following:
    """Decides how long the page of a driver is needed.

    Args:
        source: What is shown.
        visits: When somebody has looked.
    """

    def __init__(self, source: SessionSource, session: Session, visits: Visits) -> None:
        self._source = source
        self._session = session
        self._visits = visits
        self._over = threading.Event()
        self._was_open = False
        self._begun = time.monotonic()

    def driver_ends(self) -> bool:
        """Take a last look, if somebody has the page open; return whether that is so."""
        self._was_open = self._visits.seconds_ago < _STILL_LOOKS_SECONDS
        if self._was_open:
            self._source.last_look()
        self._over.set()
        return self._was_open

    def is_needed(self) -> bool:
        """Return whether the process shall go on."""
        ago = self._visits.seconds_ago
        if not self._over.is_set() and self._session.is_over:  # it was killed
            self._was_open = ago < _STILL_LOOKS_SECONDS
            self._over.set()
        if self._over.is_set():
            return self._was_open and ago < _LINGER_SECONDS
        return min(ago, time.monotonic() - self._begun) < _IDLE_SECONDS


def main(config: dict[str, Any]) -> None:
    """Serve the page of the driver that has started this process.

    Args:
        config: What it has written to the standard input: `listener`, a descriptor; `token`;
            `pid` and `home` of the session.
    """
    session = Session(config["pid"], config["home"])
    source, visits = SessionSource(session), Visits()
    following = Following(source, session, visits)
    threading.Thread(target=_follow_driver, args=(following,), daemon=True).start()
    with socket.socket(fileno=config["listener"]) as listener:
        serve(listener, source, config["token"], visits, following.is_needed)
    os._exit(0)  # a thread may wait for an answer that never comes


def _follow_driver(following: Following) -> None:
    """Wait until the driver says that it ends, or is gone; tell it when it may."""
    sys.stdin.readline()
    stays = following.driver_ends()
    if not stays:
        os._exit(0)
    with suppress(OSError):
        os.write(1, STAYS)


def serve_here(source: PageSource, token: str, listener: socket.socket) -> None:
    """Serve the page until Ctrl-C, or until its session is over and nobody looks.

    Args:
        source: What is shown.
        token: What must be in the address.
        listener: Where it is served.
    """
    visits = Visits()
    begun = time.monotonic()

    def is_needed() -> bool:
        ago = min(visits.seconds_ago, time.monotonic() - begun)
        return not getattr(source, "is_over", False) or ago < _LINGER_SECONDS

    with suppress(KeyboardInterrupt):
        serve(listener, source, token, visits, is_needed)
