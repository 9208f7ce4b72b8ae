"""A process that listens: its place, its server, and what the door tells it.

door ──── the listening socket ───► replica         a message each; see `passing`
     ──── routes and places ──────►
     ◄─── here I am / farewell ────
replica ── a connection ──► replica, or door
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING

from skate.serve._http import passing
from skate.serve._http.front import Front, Host
from skate.serve._http.routes import Routes
from skate.serve._http.server import CONNECTION, Server, any_of
from skate.serve._identity import DeploymentID

if TYPE_CHECKING:
    from skate.serve.config import HTTPOptions

LISTENER = b"L"  # carries the listening socket
NEWS = b"N"  # the routes, and who answers where
HERE = b"H"  # someone can answer from now on
FAREWELL = b"F"  # and from now on no more
WANTED = b"W"  # someone needs the listening socket


class Station:
    """What a replica and the door have in common."""

    def __init__(self, options: HTTPOptions, folder: str, host: Host | None = None) -> None:
        """`folder`: where the sockets of this instance are."""
        self._options = options
        self._host = host
        self._id = None if host is None else host.deployment_id
        self.front = Front(options, host)
        self.places: dict[DeploymentID, list[str]] = {}
        self.mailbox = passing.Mailbox(folder, self._on_message)
        self._server: Server | None = None

    @property
    def place(self) -> str:
        return self.mailbox.place

    @property
    def server(self) -> Server:
        """Made when it is first needed: what it imports takes longer than anything else here."""
        if self._server is None:
            self._server = Server(
                self.front, self._options, self._other_place, self._has_peers, self._wait_for_room
            )
        return self._server

    def close(self) -> None:
        self.mailbox.close()
        if self._server is not None:
            self._server.close()

    def _other_place(self, path: str) -> str | None:
        route = self.front.routes.match(path)
        if route is None or route.deployment_id == self._id:
            return None
        return any_of(self.places.get(route.deployment_id, []))

    def _wait_for_room(self, path: str) -> Awaitable[str | None] | None:
        """For a websocket: where its connection should go, if not here and at once."""
        host, route = self._host, self.front.routes.match(path)
        if host is None or route is None or route.deployment_id != self._id:
            return None
        return None if host.has_room_now() or not self._has_peers() else host.place_with_room()

    def _has_peers(self) -> bool:
        return self._id is not None and len(self.places.get(self._id, ())) > 1

    def _on_message(self, message: bytes, descriptors: list[int]) -> None:
        kind, rest = message[:1], message[1:]
        if kind == CONNECTION:
            self.server.adopt(socket.socket(fileno=descriptors[0]), rest)
        else:
            self._on_news(kind, rest, descriptors)

    def _on_news(self, kind: bytes, rest: bytes, descriptors: list[int]) -> None:
        raise NotImplementedError


class ReplicaStation(Station):
    """The station of a replica."""

    def __init__(self, options: HTTPOptions, door: str, host: Host) -> None:
        super().__init__(options, os.path.dirname(door), host)
        self._door = door
        self._listens = asyncio.Event()
        self._life = -1  # the door has the other end of this pipe, and sees it close

    async def join(self, door: str) -> None:
        """Returns when connections are accepted here.

        A second time: a new door has taken over, and needs to know who is there.
        """
        self._door = door
        theirs, ours = os.pipe()
        hello = json.dumps([self.place, self._id, self.server.listener is not None])
        try:
            passing.send(door, HERE + hello.encode(), [theirs])
        finally:
            os.close(theirs)
            self._life, former = ours, self._life
            _close(former)
        await self._listens.wait()

    async def leave(self) -> None:
        """Take no more connections; returns when others have all, or they have ended."""
        tell(self._door, FAREWELL + self.place.encode())
        self.server.leave(self._successors)
        await self.server.finished()
        self.mailbox.close()
        await self.server.finished()  # what was on its way until then
        self.close()

    def _successors(self) -> list[str]:
        """Who may have this replica's connections: its peers, or else the door."""
        own = self.places.get(self._id, []) if self._id is not None else []
        others = [place for place in own if place != self.place]
        return [*random.sample(others, len(others)), self._door]

    def close(self) -> None:
        super().close()
        _close(self._life)
        self._life = -1

    def _on_news(self, kind: bytes, rest: bytes, descriptors: list[int]) -> None:
        if kind == LISTENER:
            self.server.accept_from(socket.socket(fileno=descriptors[0]))
            self._listens.set()
        elif kind == WANTED and self.server.listener is not None:
            tell(rest.decode(), LISTENER, [self.server.listener.fileno()])
        elif kind == NEWS:
            routes, places = json.loads(rest)
            self.front.routes = Routes(routes)
            self.front.had_routes |= bool(routes)
            self.places = {DeploymentID(*id): where for id, where in places}


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


def tell(place: str, message: bytes, descriptors: Sequence[int] = ()) -> bool:
    """Whether someone was there to take it."""
    try:
        passing.send(place, message, descriptors)
    except OSError:
        return False
    return True
