"""The user's code as an ASGI application: what a replica answers HTTP with."""

from __future__ import annotations

import asyncio
import inspect
import os
import time
from collections.abc import AsyncIterator, Callable, Generator
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.serve._client import router_of
from skate.serve._http import fastapi_support
from skate.serve._http.admission import Admission
from skate.serve._http.answers import Message, Receive, Scope, Send, chunk, send_value
from skate.serve._http.peer import PortInvitation, ReplicaPeer
from skate.serve._replica.child_calls import cancel_children, settle_children
from skate.serve.context import RequestContext, set_scope
from skate.serve.exceptions import SkateServeError

if TYPE_CHECKING:
    from skate.serve._identity import DeploymentID
    from skate.serve._replica.actor import Replica


_END: Any = object()  # of what a generator yields


async def join_port(replica: Replica, invitation: PortInvitation) -> ReplicaPeer | None:
    """Accept connections for a replica; return None on another machine than the port's owner,
    where requests come by handles."""
    owner, options = invitation
    if replica.http is None and not os.path.exists(owner):
        return None
    peer: ReplicaPeer = replica.http or ReplicaPeer(options, owner, replica.app)
    router_of(replica.deployment_id)  # from now on it knows the others, for when this one is full
    await peer.join(owner)
    return peer


class ReplicaApp:
    """Calls the user's code with requests."""

    def __init__(self, replica: Replica) -> None:
        self.deployment_id: DeploymentID = replica.deployment_id
        self.admission = Admission(replica)
        self._replica = replica
        self._code = replica.code
        self._app = replica.code.app
        self._requests = try_import("starlette.requests", "serve")
        self._response = try_import("starlette.responses", "serve").Response
        if self._app is None and self._has_call():
            self._function, self._on_loop = self._code.method("__call__")
            self._takes_request = _takes_argument(self._function)

    @property
    def actor_name(self) -> str:
        """The name of the replica's actor."""
        return self._replica.id.actor_name

    def _has_call(self) -> bool:
        return callable(self._code.instance)

    async def answer(
        self, context: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Count the request in, have it answered, count it out."""
        begun, failure = self._replica.begin(context), ""
        try:
            await self.respond(scope, receive, send)
        except asyncio.CancelledError:
            cancel_children(context)
            raise
        except Exception as error:
            failure = type(error).__name__
            raise
        finally:
            settle_children(context)
            self._replica.end(begun, failure)

    async def respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Have the user's code answer a request that has begun; log it, if that is asked for."""
        logs = self._replica.logs
        if logs is None or not logs.has_access_log:
            await self._respond(scope, receive, send)
            return
        status: object = 500  # if it does not come to an answer
        began = time.monotonic()

        async def sending(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        try:
            await self._respond(scope, receive, sending)
        except asyncio.CancelledError:
            status = 499  # the client is gone, or has waited too long
            raise
        finally:
            logs.log_http(scope, status, time.monotonic() - began)

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is not None:
            fastapi_support.current.set(self._code.instance)
            set_scope(scope)
            await self._app(scope, receive, send)
        elif scope["type"] == "websocket":
            # Only an application knows what to do with one.
            await send({"type": "websocket.close", "code": 1000})
        else:
            result = await self._call(scope, receive, send)
            if isinstance(result, self._response):
                await result(scope, receive, send)
            elif inspect.isasyncgen(result) or inspect.isgenerator(result):
                await self._stream(result, send)
            else:
                await send_value(send, result)

    async def _call(self, scope: Scope, receive: Receive, send: Send) -> Any:
        if not self._has_call():
            raise SkateServeError(
                f"{self.deployment_id} answers HTTP with its method __call__, which it has not: "
                "define it, give the class an application with @serve.ingress, or run it with "
                "route_prefix=None if it is called by handles only"
            )
        request = (self._requests.Request(scope, receive, send),) if self._takes_request else ()
        if not self._on_loop:
            return await self._code.run(self._function, *request)
        result = self._function(*request)
        return await result if inspect.isawaitable(result) else result

    async def _stream(
        self, items: AsyncIterator[object] | Generator[object, Any, object], send: Send
    ) -> None:
        """Send what a generator yields, as it comes; one that fails at once is an error."""
        parts = items if isinstance(items, AsyncIterator) else self._code.in_steps(items)
        item = await anext(parts, _END)
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        while item is not _END:
            await send({"type": "http.response.body", "body": chunk(item), "more_body": True})
            item = await anext(parts, _END)
        await send({"type": "http.response.body", "body": b""})


def _takes_argument(function: Callable[..., object]) -> bool:
    """Return whether it is to be called with the request."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return any(parameter.kind not in named for parameter in parameters)
