"""The owner of the port: opens the listening socket, and answers while nobody else does."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import socket
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING

from skate._core.addresses import build_address
from skate.serve._http import fd_passing
from skate.serve._http.peer import (
    JOINED,
    LEFT,
    LISTENING_SOCKET,
    ROUTING,
    SOCKET_WANTED,
    Peer,
    PortInvitation,
    tell,
)
from skate.serve._http.routes import Routes
from skate.serve._http.socket_folder import make_folder, remove_socket
from skate.serve._identity import DeploymentID
from skate.serve.exceptions import AddressUnavailableError

if TYPE_CHECKING:
    from skate.serve.config import HTTPOptions

_BACKLOG_CONNECTIONS = 2048
_LENDING_SECONDS = 2.0  # for a replica to hand the socket back
_AGAIN_SECONDS = 0.1  # until a replica is told what it could not be told


class PortOwner(Peer):
    """Opens the port and gives it to the replicas. Lives in the controller's process.

    While no replica accepts connections it does so itself: it answers what can be said without
    one, and sends the rest through handles, which wait for a replica.
    """

    def __init__(self, options: HTTPOptions) -> None:
        """Have an address in a new folder; `open` opens the port."""
        self.folder = make_folder()
        super().__init__(options, self.folder)
        self._socket: socket.socket | None = None
        self._lent: asyncio.Future[int] | None = None
        # address of a replica -> whose it is, and the pipe that closes with it
        self._replicas: dict[str, tuple[DeploymentID, int]] = {}
        self._targets: dict[str, DeploymentID] = {}
        self._routing = b""  # the message that tells all of this
        self._postponed: set[tuple[Callable[[str], None], str]] = set()
        self._loop = asyncio.get_running_loop()

    # -- the socket ----------------------------------------------------------------------------

    async def open(self, lenders: Iterable[str] = ()) -> None:
        """Open the port.

        Args:
            lenders: Replicas that may have the socket of the owner before this one.

        Raises:
            RuntimeError: If the address cannot be listened on.
        """
        for address in lenders:
            if await self._borrow(address):
                break
        else:
            try:
                self._socket = _listen(self._options)
            except RuntimeError:
                self.close()
                raise
        self._watch()

    async def _borrow(self, address: str) -> bool:
        self._lent = self._loop.create_future()
        if not tell(address, SOCKET_WANTED + self.address.encode()):
            return False
        try:
            descriptor = await asyncio.wait_for(self._lent, _LENDING_SECONDS)
        except asyncio.TimeoutError:
            return False
        self._socket = socket.socket(fileno=descriptor)
        return True

    @property
    def invitation(self) -> PortInvitation:
        """What a replica needs to know to accept connections, too."""
        return PortInvitation(self.address, self._options)

    @property
    def url_parts(self) -> tuple[str, str, int]:
        """Scheme, host and port, as they turned out."""
        assert self._socket is not None
        host, port = self._socket.getsockname()[:2]
        return "https" if self._options.ssl_certfile else "http", host, port

    def close(self) -> None:
        """Give the port back, and end all connections here."""
        self._stop_watching()
        super().close()
        for _, pipe in self._replicas.values():
            self._loop.remove_reader(pipe)
            os.close(pipe)
        self._replicas.clear()
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    # -- who answers ---------------------------------------------------------------------------

    def set_routes(self, targets: Mapping[str, DeploymentID]) -> None:
        """Make these the routes, prefix -> deployment, and tell all who listen."""
        if targets == self._targets:
            return
        self._targets = dict(targets)
        self.app.set_routes(Routes(self._targets))
        self._tell_routing()

    def _on_news(self, kind: bytes, rest: bytes, descriptors: list[int]) -> None:
        if kind == JOINED:
            address, id, accepts = json.loads(rest)
            self._add(address, DeploymentID(*id), accepts, descriptors[0])
        elif kind == LEFT:
            self._remove(rest.decode())
        elif kind == LISTENING_SOCKET and self._lent is not None and not self._lent.done():
            self._lent.set_result(descriptors[0])

    def _add(self, address: str, id: DeploymentID, accepts: bool, pipe: int) -> None:
        assert self._socket is not None
        self._forget(address)
        self._replicas[address] = id, pipe
        self._loop.add_reader(pipe, self._was_closed, address)
        self._tell_routing()  # before the socket: who accepts must know the routes
        if not accepts:
            self._give_socket(address)
        self._watch()
        if self._listener is not None:
            self._listener.give_idle_to(address)

    def _was_closed(self, address: str) -> None:
        """Do without a replica that was killed; one that joins again closes its pipe, too."""
        if fd_passing.nobody_listens(address):
            remove_socket(address)
        self._remove(address)

    def _remove(self, address: str) -> None:
        if self._forget(address):
            self._tell_routing()
            self._watch()

    def _forget(self, address: str) -> bool:
        """Return whether it was known."""
        known = self._replicas.pop(address, None)
        if known is None:
            return False
        self._loop.remove_reader(known[1])
        os.close(known[1])
        return True

    def _tell_routing(self) -> None:
        addresses: dict[DeploymentID, list[str]] = {}
        for address, (id, _) in self._replicas.items():
            addresses.setdefault(id, []).append(address)
        self.addresses = addresses
        self._routing = ROUTING + json.dumps([self._targets, [*addresses.items()]]).encode()
        for address in self._replicas:
            self._give_routing(address)

    # A replica may not be told at once: descriptors are short, or too many messages wait for it.
    # It is told later, as long as it is there.

    def _give_routing(self, address: str) -> None:
        if address in self._replicas and not tell(address, self._routing):
            self._postpone(self._give_routing, address)

    def _give_socket(self, address: str) -> None:
        if address not in self._replicas or self._socket is None:
            return
        knows = tell(address, self._routing)  # if it could not be told before
        if not (knows and tell(address, LISTENING_SOCKET, [self._socket.fileno()])):
            self._postpone(self._give_socket, address)

    def _postpone(self, give: Callable[[str], None], address: str) -> None:
        """Try it again later: once, however often there is news meanwhile."""
        if (give, address) not in self._postponed:
            self._postponed.add((give, address))
            self._loop.call_later(_AGAIN_SECONDS, self._try_again, give, address)

    def _try_again(self, give: Callable[[str], None], address: str) -> None:
        self._postponed.remove((give, address))
        give(address)

    # -- while nobody else accepts -------------------------------------------------------------

    def _watch(self) -> None:
        """Accept if nobody else does, and only then."""
        if self._socket is None:
            return
        if self._replicas:
            self._stop_watching()
        elif self._listener is None or self._listener.shared_socket is None:
            self._loop.add_reader(self._socket.fileno(), self._begin_to_accept)

    def _stop_watching(self) -> None:
        if self._socket is not None:
            self._loop.remove_reader(self._socket.fileno())
        if self._listener is not None:
            self._listener.stop_accepting()

    def _begin_to_accept(self) -> None:
        """Have a listener, now that the first connection has come."""
        assert self._socket is not None
        self._loop.remove_reader(self._socket.fileno())
        self.listener.accept_from(self._socket.dup())


def _listen(options: HTTPOptions) -> socket.socket:
    host, port = options.host or "", options.port
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listening = socket.socket(family, socket.SOCK_STREAM)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((host, port))
        listening.listen(_BACKLOG_CONNECTIONS)
    except OSError as error:
        listening.close()
        raise _explained(error, host, port) from error
    return listening


def _explained(error: OSError, host: str, port: int) -> AddressUnavailableError:
    where = f"http://{build_address(host, port)}"
    if error.errno == errno.EADDRINUSE:
        why = "another program listens there"
    elif error.errno == errno.EACCES:
        why = "ports below 1024 are for the administrator"
    else:
        why = f"{error.strerror or error}"
    return AddressUnavailableError(
        f"cannot listen on {where}: {why}. Choose another address, as in "
        'serve.start(http_options={"port": 8001}); port 0 takes any that is free'
    )
