"""The actor that has the port of gRPC.

    client ── gRPC ─► GrpcServer ── handle of the application ─► replica: the user's method

Which methods there are, `methods` knows; whose they are, the metadata `application` of each call.
"""

from __future__ import annotations

import asyncio
import functools
import logging
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import skate
from skate._core.addresses import build_address
from skate._core.measurements import announce_measurements
from skate._core.optional_imports import try_import
from skate.serve import _client
from skate.serve._grpc.calls import GrpcCallError
from skate.serve._grpc.methods import (
    API,
    HEALTH,
    add_forwarded,
    add_own_service,
    servicer_function,
)
from skate.serve._grpc.token_check import token_check
from skate.serve._identity import INGRESSES, new_tag
from skate.serve._measurements import IngressRequests
from skate.serve._replica.grpc_calls import MessageStream
from skate.serve.exceptions import RequestCancelledError, SkateServeError
from skate.serve.handle import DeploymentHandle

if TYPE_CHECKING:
    from skate.serve._grpc.call_context import CallContext
    from skate.serve._identity import ControllerHandle
    from skate.serve.config import HTTPOptions, gRPCOptions

logger = logging.getLogger("skate.serve")

_REOPEN_SECONDS = 1.0  # between tries to open the port of a process that has died
_OPTIONS = (("grpc.so_reuseport", 0), ("grpc.max_send_message_length", -1),
            ("grpc.max_receive_message_length", -1))  # fmt: skip


class GrpcServer:
    """Answers gRPC until it is killed."""

    def __init__(self, options: gRPCOptions, http: HTTPOptions, starter_pid: int) -> None:
        """Answer at the host of HTTP, with its certificate and its token."""
        self._starter_pid = starter_pid
        self._options = options
        self._http = http
        self._host = http.host or "127.0.0.1"
        self._begun = False
        self._port = 0
        self._failure: Exception | None = None  # why the port is not open
        self._decided = asyncio.Event()  # whether it can be opened
        self._ingresses: dict[str, str] = {}  # deployments in front, by application
        self._handles: dict[str, DeploymentHandle] = {}
        self._streams: dict[str, _StreamingCall] = {}
        self.requests = IngressRequests("gRPC")
        announce_measurements(self.requests, IngressRequests.families)

    # -- what others ask for -------------------------------------------------------------------

    async def run(self) -> None:
        """Open the port, and answer what comes.

        Where the port cannot be had, the start fails, as `address` tells. A process in the place
        of one that has died tries again until it can: nobody is there to start it anew.
        """
        if self._begun:  # by another process that has started serving at the same time
            return
        self._begun = True
        self._follow_applications()
        tries_again = skate.get_runtime_context().was_current_actor_reconstructed
        while True:
            try:
                server = await self._open()
                break
            except Exception as error:
                if tries_again and str(error) != str(self._failure):
                    logger.error("%s; it is tried again until it can be", error)
                self._failure = error
                self._decided.set()
                if not tries_again:
                    return
            await asyncio.sleep(_REOPEN_SECONDS)
        await server.wait_for_termination()

    async def address(self) -> str:
        """Return host and port, as soon as it is open.

        Raises:
            Exception: Why it is not, if it could not be opened.
        """
        await self._decided.wait()
        if self._failure is not None:
            raise self._failure
        return build_address(self._host, self._port)

    async def options(self) -> gRPCOptions:
        """Return what it was started with."""
        return self._options

    async def next_message(self, key: str) -> list[Any]:
        """Return the next message that a client sends in a call; none at their end.

        Raises:
            RequestCancelledError: If the call has ended: not all messages may have come.
        """
        call = self._streams.get(key)
        if call is not None:
            async for message in call.messages:
                return [message]
            if call.sending is not None:
                async with call.sending:
                    if key in self._streams:
                        await _wait_for_cancellation(call.context)
        if key not in self._streams:
            raise RequestCancelledError
        return []

    # -- the port ------------------------------------------------------------------------------

    async def _open(self) -> Any:
        """Open the port, and return the server that answers there."""
        import grpc

        checks = token_check(self._http.auth_token, [HEALTH])
        server = grpc.aio.server(interceptors=checks, options=_OPTIONS)
        port = self._add_port(server)
        services = [
            add_forwarded(server, servicer_function(path), self)
            for path in self._options.grpc_servicer_functions
        ]
        add_own_service(server, self)
        if self._options.enable_reflection:
            reflection = try_import("grpc_reflection.v1alpha.reflection", "grpc")
            names = [name for each in services for name in each]
            reflection.enable_server_reflection((*names, reflection.SERVICE_NAME), server)
        await server.start()
        self._port, self._failure = port, None
        self._decided.set()
        return server

    def _add_port(self, server: Any) -> int:
        if os.getpid() == self._starter_pid:
            raise RuntimeError(
                "gRPC is answered by a process of its own, which the inline engine has not: start "
                'the session with skate.init(engine="local")'
            )
        address = build_address(self._host, self._options.port)
        credentials = _credentials(self._http)
        try:
            if credentials is None:
                port: int = server.add_insecure_port(address)
            else:
                port = server.add_secure_port(address, credentials)
        except RuntimeError as error:
            raise RuntimeError(f"gRPC cannot be answered at {address}: {error}") from None
        return port

    # -- calls ---------------------------------------------------------------------------------

    @property
    def timeout_s(self) -> float | None:
        """How long a call may take."""
        return self._options.request_timeout_s

    @property
    def shows_errors(self) -> bool:
        """Whether answers say why, also where that is a secret of the user's code."""
        return self._http.show_errors

    @contextmanager
    def offered(
        self, messages: AsyncIterator[Any], context: CallContext, sending: asyncio.Lock | None
    ) -> Iterator[MessageStream]:
        """Let a replica read the messages of a client, until the call has ended."""
        key = new_tag()
        self._streams[key] = _StreamingCall(messages, context, sending)
        try:
            yield MessageStream(key)
        finally:
            del self._streams[key]

    async def applications(self) -> list[str]:
        """Return the names of all applications."""
        names: list[str] = await self._controller.names.remote()
        return names

    def ingress_of(self, application: str) -> str:
        """Return the deployment in front of an application; "" if that is not known."""
        return self._ingresses.get(application, "")

    async def handle_of(self, application: str | None) -> DeploymentHandle:
        """Return the handle to an application; to the only one, without a name.

        The controller is asked only for what does not seem to be there, and may be new.

        Raises:
            GrpcCallError: If there is no such application, or several to choose from.
        """
        handle = self._known_handle(application)
        if handle is None:
            self._ingresses = await self._controller.ingresses.remote()
            handle = self._known_handle(application, is_news=True)
        if handle is not None:
            return handle
        if application is not None:
            raise GrpcCallError.not_found(
                f"Application '{application}' not found. {API}ListApplications lists them"
            )
        raise GrpcCallError.not_found(
            "Application metadata not set: send ('application', name) with one of "
            f"{list(self._ingresses)}"
        )

    def _known_handle(
        self, application: str | None, is_news: bool = False
    ) -> DeploymentHandle | None:
        """Return a handle by what is known of applications; None if there is none, or if, unless
        it is news, another deployment may be in front by now."""
        if application is None and len(self._ingresses) == 1:
            (application,) = self._ingresses
        ingress = self._ingresses.get(application or "")
        if application is None or ingress is None:
            return None
        handle = self._handles.get(application)
        if handle is None or handle.deployment_name != ingress:
            handle = self._handles[application] = DeploymentHandle(ingress, application)
        return None if not is_news and _is_unavailable(handle) else handle

    def _follow_applications(self) -> None:
        """Have the controller tell which applications there are, whenever that changes."""

        def learn(ingresses: dict[str, str]) -> None:
            self._ingresses = ingresses

        _client.Subscription(self._controller, INGRESSES, learn).start()

    @functools.cached_property  # to ask for an actor keeps the event loop waiting
    def _controller(self) -> ControllerHandle:
        return _client.connect().controller


def _is_unavailable(handle: DeploymentHandle) -> bool:
    """Return whether it is known that a deployment has been deleted, or could not start."""
    table = handle._find_router().table
    return table is not None and bool(table.unavailable)


class _StreamingCall(NamedTuple):
    """A call whose client sends many messages."""

    messages: AsyncIterator[Any]
    context: CallContext  # which gRPC made
    sending: asyncio.Lock | None  # held while something is sent; None: answers are, at any time


async def _wait_for_cancellation(context: CallContext) -> None:
    """Let the end of a call be known, if that is why there are no more messages.

    Both a client that has sent all and one that cancels end the messages; of the latter gRPC
    tells a moment later. Something sent to the client takes the same way, and arrives after that.
    """
    await context.send_initial_metadata(())


def _credentials(http: HTTPOptions) -> Any:
    """Return what the server proves itself with; None where HTTP is not encrypted either."""
    import grpc

    if not http.ssl_certfile:
        return None
    if http.ssl_keyfile_password:
        raise SkateServeError("gRPC takes no ssl_keyfile_password: give it a key without one")
    paths = (http.ssl_keyfile, http.ssl_certfile, http.ssl_ca_certs)
    key, certificate, authorities = (Path(path).read_bytes() if path else None for path in paths)
    return grpc.ssl_server_credentials([(key, certificate)], authorities, authorities is not None)
