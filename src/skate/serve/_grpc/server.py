"""The actor that has the port of gRPC.

    client ── gRPC ─► GrpcServer ── handle of the application ─► replica: the user's method

Which methods there are, `methods` knows; whose they are, the metadata `application` of each call.
"""

from __future__ import annotations

import asyncio
import functools
import os
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from skate._core.optional_imports import try_import
from skate.serve._grpc.calls import GrpcCallError
from skate.serve._grpc.methods import (
    API,
    HEALTH,
    add_forwarded,
    add_own_service,
    servicer_function,
)
from skate.serve._grpc.token_check import token_check
from skate.serve._identity import new_tag
from skate.serve._replica.grpc_calls import MessageStream
from skate.serve.exceptions import RequestCancelledError, SkateServeError
from skate.serve.handle import DeploymentHandle

if TYPE_CHECKING:
    from skate.serve._identity import ControllerHandle
    from skate.serve.config import HTTPOptions, gRPCOptions

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
        self._port: asyncio.Future[int] | None = None
        self._handles: dict[str, DeploymentHandle] = {}
        self._streams: dict[str, _StreamingCall] = {}

    # -- what others ask for -------------------------------------------------------------------

    async def run(self) -> None:
        """Open the port, and answer what comes."""
        if self._begun:  # by another process that has started serving at the same time
            return
        self._begun = True
        import grpc

        checks = token_check(self._http.auth_token, [HEALTH])
        server = grpc.aio.server(interceptors=checks, options=_OPTIONS)
        try:
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
        except Exception as error:
            self._opened().set_exception(error)
            return
        self._opened().set_result(port)
        await server.wait_for_termination()

    async def address(self) -> str:
        """Return host and port, as soon as it is open."""
        return f"{self._host}:{await asyncio.shield(self._opened())}"

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

    def _opened(self) -> asyncio.Future[int]:
        if self._port is None:
            self._port = asyncio.get_running_loop().create_future()
        return self._port

    def _add_port(self, server: Any) -> int:
        if os.getpid() == self._starter_pid:
            raise RuntimeError(
                "gRPC is answered by a process of its own, which the inline engine has not: start "
                'the session with skate.init(engine="local")'
            )
        address = f"{self._host}:{self._options.port}"
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
        self, messages: AsyncIterator[Any], context: Any, sending: asyncio.Lock | None
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

    async def handle_of(self, application: str | None) -> DeploymentHandle:
        """Return the handle to an application; to the only one, without a name.

        Raises:
            GrpcCallError: If there is no such application, or several to choose from.
        """
        if application is None:
            names = await self.applications()
            if len(names) != 1:
                raise GrpcCallError.not_found(
                    f"Application metadata not set: send ('application', name) with one of {names}"
                )
            (application,) = names
        handle = self._handles.get(application)
        if handle is None or _is_unavailable(handle):  # another deployment may be in front now
            self._handles.pop(application, None)
            ingress = await self._controller.ingress_of.remote(application)
            if ingress is None:
                raise GrpcCallError.not_found(
                    f"Application '{application}' not found. {API}ListApplications lists them"
                )
            handle = self._handles[application] = DeploymentHandle(ingress, application)
        return handle

    @functools.cached_property  # to ask for an actor keeps the event loop waiting
    def _controller(self) -> ControllerHandle:
        from skate.serve import _client

        return _client.connect().controller


def _is_unavailable(handle: DeploymentHandle) -> bool:
    """Return whether it is known that a deployment has been deleted, or could not start."""
    table = handle._find_router().table
    return table is not None and bool(table.unavailable)


class _StreamingCall(NamedTuple):
    """A call whose client sends many messages."""

    messages: AsyncIterator[Any]
    context: Any  # which gRPC made
    sending: asyncio.Lock | None  # held while something is sent; None: answers are, at any time


async def _wait_for_cancellation(context: Any) -> None:
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
