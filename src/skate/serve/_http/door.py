"""The address: the listening socket, who has it, and who answers while nobody does."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from skate.serve._http.folder import make_folder, remove_socket
from skate.serve._http.routes import Routes
from skate.serve._http.station import FAREWELL, HERE, LISTENER, NEWS, WANTED, Station, tell
from skate.serve._identity import DeploymentID

if TYPE_CHECKING:
    from skate.serve.config import HTTPOptions

_BACKLOG = 2048
_PATIENCE = 2.0  # seconds for a replica to hand the socket back


class Door(Station):
    """Opens the port and gives it to the replicas. Lives in the controller's process.

    While no replica accepts connections it does so itself: its front answers what can be said
    without one, and sends the rest through handles, which wait for a replica.
    """

    def __init__(self, options: HTTPOptions) -> None:
        self.folder = make_folder()
        super().__init__(options, self.folder)
        self._socket: socket.socket | None = None
        self._lent: asyncio.Future[int] | None = None
        self._lives: dict[str, tuple[DeploymentID, int]] = {}  # place -> whose it is, its pipe
        self._targets: dict[str, DeploymentID] = {}
        self._loop = asyncio.get_running_loop()

    # -- the socket ----------------------------------------------------------------------------

    async def open(self, lenders: Iterable[str] = ()) -> None:
        """Listen. `lenders` are places of replicas that may have the socket of a former door."""
        for place in lenders:
            if await self._borrow(place):
                break
        else:
            try:
                self._socket = _listen(self._options)
            except RuntimeError:
                self.close()
                raise
        self._watch()

    async def _borrow(self, place: str) -> bool:
        self._lent = self._loop.create_future()
        if not tell(place, WANTED + self.place.encode()):
            return False
        try:
            descriptor = await asyncio.wait_for(self._lent, _PATIENCE)
        except asyncio.TimeoutError:
            return False
        self._socket = socket.socket(fileno=descriptor)
        return True

    @property
    def invitation(self) -> tuple[str, HTTPOptions]:
        """What a replica needs to know to listen, too."""
        return self.place, self._options

    @property
    def address(self) -> tuple[str, str, int]:
        """Scheme, host and port, as they turned out."""
        assert self._socket is not None
        host, port = self._socket.getsockname()[:2]
        return "https" if self._options.ssl_certfile else "http", host, port

    def close(self) -> None:
        self._stop_watching()
        super().close()
        for _, pipe in self._lives.values():
            self._loop.remove_reader(pipe)
            os.close(pipe)
        self._lives.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # -- who answers ---------------------------------------------------------------------------

    def set_routes(self, targets: Mapping[str, DeploymentID]) -> None:
        """prefix -> the deployment that answers; told to all who listen."""
        if targets == self._targets:
            return
        self._targets = dict(targets)
        self.front.routes = Routes(self._targets)
        self.front.had_routes |= bool(targets)
        self._spread()

    def _on_news(self, kind: bytes, rest: bytes, descriptors: list[int]) -> None:
        if kind == HERE:
            place, id, listens = json.loads(rest)
            self._welcome(place, DeploymentID(*id), listens, descriptors[0])
        elif kind == FAREWELL:
            self._forget(rest.decode())
        elif kind == LISTENER and self._lent is not None and not self._lent.done():
            self._lent.set_result(descriptors[0])

    def _welcome(self, place: str, id: DeploymentID, listens: bool, pipe: int) -> None:
        assert self._socket is not None
        self._forget(place)
        self._lives[place] = id, pipe
        self._loop.add_reader(pipe, self._forget, place)
        self._spread()  # before the socket: who accepts must know the routes
        if not listens:
            tell(place, LISTENER, [self._socket.fileno()])
        self._watch()
        if self._server is not None:
            self._server.give_idle_to(place)

    def _forget(self, place: str) -> None:
        known = self._lives.pop(place, None)
        if known is not None:
            self._loop.remove_reader(known[1])
            os.close(known[1])
            remove_socket(place)  # of one that was killed
            self._spread()
            self._watch()

    def _spread(self) -> None:
        places: dict[DeploymentID, list[str]] = {}
        for place, (id, _) in self._lives.items():
            places.setdefault(id, []).append(place)
        self.places = places
        news = NEWS + json.dumps([self._targets, [*places.items()]]).encode()
        for place in self._lives:
            tell(place, news)

    # -- while nobody else accepts -------------------------------------------------------------

    def _watch(self) -> None:
        """Accept if nobody else does, and only then."""
        if self._socket is None:
            return
        if self._lives:
            self._stop_watching()
        elif self._server is None or self._server.listener is None:
            self._loop.add_reader(self._socket.fileno(), self._knock)

    def _stop_watching(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
        if self._server is not None:
            self._server.stop_accepting()

    def _knock(self) -> None:
        """The first connection: have a server now."""
        assert self._socket is not None
        self._loop.remove_reader(self._socket.fileno())
        self.server.accept_from(self._socket.dup())


def _listen(options: HTTPOptions) -> socket.socket:
    host, port = options.host or "", options.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        raise _explained(error, host, port) from error
    return listener


def _explained(error: OSError, host: str, port: int) -> RuntimeError:
    where = f"http://{host}:{port}"
    if error.errno == errno.EADDRINUSE:
        why = "another program listens there"
    elif error.errno == errno.EACCES:
        why = "ports below 1024 are for the administrator"
    else:
        why = f"{error.strerror or error}"
    return RuntimeError(
        f"cannot listen on {where}: {why}. Choose another address, as in "
        'serve.start(http_options={"port": 8001}); port 0 takes any that is free'
    )
