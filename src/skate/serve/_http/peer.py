"""A process that shares the port: its address, its listener, and what the port's owner tells it.

owner ──── the listening socket ───► replica         a message each; see `fd_passing`
      ──── routes and addresses ───►
      ◄─── joined / left ───────────
replica ── a connection ──► replica, or owner
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from skate.serve._http import fd_passing
from skate.serve._http.asgi import HttpApp
from skate.serve._http.listener import CONNECTION, Listener
from skate.serve._http.loop_end import at_end_of_loop
from skate.serve._http.routes import Routes
from skate.serve._identity import DeploymentID

if TYPE_CHECKING:
    from skate.serve._http.replica_app import ReplicaApp
    from skate.serve.config import HTTPOptions

# How messages begin.
LISTENING_SOCKET = b"L"  # carries it
ROUTING = b"N"  # the routes, and who answers where
JOINED = b"H"  # someone can answer from now on
LEFT = b"F"  # and from now on no more
SOCKET_WANTED = b"W"  # someone needs the listening socket


class PortInvitation(NamedTuple):
    """What a replica needs to answer on the shared port."""

    owner: str  # address of the port's owner
    options: HTTPOptions


class Peer:
    """What replicas and the port's owner have in common."""

    def __init__(
        self, options: HTTPOptions, folder: str, replica: ReplicaApp | None = None
    ) -> None:
        """Have an address in `folder`; answer by `replica`, if this process has one."""
        self._options = options
        self._replica = replica
        self._id = None if replica is None else replica.deployment_id
        self.app = HttpApp(options, replica)
        self.addresses: dict[DeploymentID, list[str]] = {}  # of the processes that answer
        self.mailbox = fd_passing.DescriptorMailbox(folder, self._on_message)
        self._listener: Listener | None = None
        self._at_end = at_end_of_loop(self.close)

    @property
    def address(self) -> str:
        """Where this process gets messages: the path of a Unix socket."""
        return self.mailbox.address

    @property
    def listener(self) -> Listener:
        """Made when it is first needed: what it imports takes longer than anything else here."""
        if self._listener is None:
            self._listener = Listener(self.app, self._options, self)
        return self._listener

    def close(self) -> None:
        """End at once, with all connections."""
        self._at_end.cancel()
        self.mailbox.close()
        if self._listener is not None:
            self._listener.close()

    # -- what the listener asks ----------------------------------------------------------------

    def address_for(self, path: str) -> str | None:
        """Return where a path is answered, if not in this process."""
        route = self.app.routes.match(path)
        if route is None or route.deployment_id == self._id:
            return None
        addresses = self.addresses.get(route.deployment_id)
        return random.choice(addresses) if addresses else None

    def has_siblings(self) -> bool:
        """Return whether another process could take any connection as well."""
        return self._id is not None and len(self.addresses.get(self._id, ())) > 1

    def room_for(self, path: str) -> Awaitable[str | None] | None:
        """Return None if a websocket begins here and now; else what waits for room, and says at
        which address that is, or None for here."""
        replica, route = self._replica, self.app.routes.match(path)
        if replica is None or route is None or route.deployment_id != self._id:
            return None
        if replica.admission.has_room_now() or not self.has_siblings():
            return None
        return replica.admission.address_with_room()

    # -- messages ------------------------------------------------------------------------------

    def _on_message(self, message: bytes, descriptors: list[int]) -> None:
        kind, rest = message[:1], message[1:]
        if kind == CONNECTION:
            self.listener.adopt(socket.socket(fileno=descriptors[0]), rest)
        else:
            self._on_news(kind, rest, descriptors)

    def _on_news(self, kind: bytes, rest: bytes, descriptors: list[int]) -> None:
        raise NotImplementedError


class ReplicaPeer(Peer):
    """A replica that answers HTTP, from its first connection to its last."""

    def __init__(self, options: HTTPOptions, owner: str, replica: ReplicaApp) -> None:
        """Have an address beside that of the port's `owner`."""
        super().__init__(options, os.path.dirname(owner), replica)
        self._owner = owner
        self._accepts = asyncio.Event()
        self._life = -1  # the owner has the other end of this pipe, and sees it close

    async def join(self, owner: str) -> None:
        """Return when connections are accepted here.

        A second time: a new owner has taken over, and needs to know who is there.
        """
        self._owner = owner
        theirs, ours = os.pipe()
        hello = json.dumps([self.address, self._id, self.listener.shared_socket is not None])
        try:
            fd_passing.send(owner, JOINED + hello.encode(), [theirs])
        finally:
            os.close(theirs)
            before, self._life = self._life, ours
            _close(before)
        await self._accepts.wait()

    async def leave(self) -> None:
        """Take no more connections; return when others have all, or they have ended."""
        tell(self._owner, LEFT + self.address.encode())
        self.listener.leave(self._successors)
        await self.listener.finished()
        self.mailbox.close()
        await self.listener.finished()  # what was on its way until then
        self.close()

    def _successors(self) -> list[str]:
        """Return who may have this replica's connections: its siblings, or else the owner."""
        own = self.addresses.get(self._id, []) if self._id is not None else []
        others = [address for address in own if address != self.address]
        return [*random.sample(others, len(others)), self._owner]

    def close(self) -> None:
        """End at once, with all connections; the owner notices."""
        super().close()
        _close(self._life)
        self._life = -1

    def _on_news(self, kind: bytes, rest: bytes, descriptors: list[int]) -> None:
        if kind == LISTENING_SOCKET:
            self.listener.accept_from(socket.socket(fileno=descriptors[0]))
            self._accepts.set()
        elif kind == SOCKET_WANTED and self.listener.shared_socket is not None:
            tell(rest.decode(), LISTENING_SOCKET, [self.listener.shared_socket.fileno()])
        elif kind == ROUTING:
            routes, addresses = json.loads(rest)
            self.app.set_routes(Routes(routes))
            self.addresses = {DeploymentID(*id): where for id, where in addresses}


def _close(descriptor: int) -> None:
    if descriptor >= 0:
        os.close(descriptor)


def tell(address: str, message: bytes, descriptors: Sequence[int] = ()) -> bool:
    """Send a message; return whether someone was there to take it."""
    try:
        fd_passing.send(address, message, descriptors)
    except OSError:
        return False
    return True
