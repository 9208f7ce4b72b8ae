"""The replica's side of HTTP: the user's code as what answers requests."""

from __future__ import annotations

import asyncio
import inspect
import os
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import try_import
from skate.serve import context as serve_context
from skate.serve._client import router_of
from skate.serve._http import views
from skate.serve._http.answers import Message, Receive, Scope, Send, chunk, send_value
from skate.serve._http.forwarding import answer_forwarded
from skate.serve._http.line import Line
from skate.serve._http.rooms import place_with_room
from skate.serve._http.station import ReplicaStation
from skate.serve._identity import DeploymentID
from skate.serve._replica import cancel_children
from skate.serve.context import RequestContext
from skate.serve.exceptions import BackPressureError, SkateServeError

if TYPE_CHECKING:
    from skate.serve._replica import Replica
    from skate.serve.config import HTTPOptions


async def serve_replica(
    replica: Replica, invitation: tuple[str, HTTPOptions]
) -> HttpServer | None:
    """Accept connections for a replica; `invitation` comes from the door.

    None on another machine than the door's: requests come to it by handles.
    """
    door, options = invitation
    if replica.http is None and not os.path.exists(door):
        return None
    server: HttpServer = replica.http or HttpServer(replica, options, door)
    await server.join(door)
    return server


def answer(
    replica: Replica, context: RequestContext, scope: Scope, body: bytes
) -> AsyncIterator[list[Message]]:
    """The response to a request that arrived at another process, as ASGI messages."""
    return answer_forwarded(Callee(replica).respond_in_context, context, scope, body)


class HttpServer:
    """A replica's station, from its first connection to its last."""

    def __init__(self, replica: Replica, options: HTTPOptions, door: str) -> None:
        self._id = replica.deployment_id
        self._station = ReplicaStation(options, door, Callee(replica))

    @property
    def place(self) -> str:
        """Where a new controller finds the port."""
        return self._station.place

    async def join(self, door: str) -> None:
        router_of(self._id)  # from now on it knows the others, for when this one is full
        await self._station.join(door)

    def close(self) -> None:
        self._station.close()

    async def stop(self) -> None:
        """Accept no more connections; returns when those with a request have ended."""
        await self._station.leave()


class Callee:
    """The user's code, called with requests."""

    def __init__(self, replica: Replica) -> None:
        self.deployment_id: DeploymentID = replica.deployment_id
        self._replica = replica
        self._line = Line(replica)
        self._code = replica.code
        self._app = replica.code.app
        self._requests = try_import("starlette.requests", "serve")
        self._response = try_import("starlette.responses", "serve").Response
        if self._app is None and self._has_call():
            self._function, self._on_loop = self._code.method("__call__")
            self._takes_request = _takes_argument(self._function)

    def _has_call(self) -> bool:
        return callable(self._code.instance)

    def has_better(self, model_id: str) -> bool:
        """Whether another replica has this model, or fewer of them, and room."""
        replica = self._replica
        if model_id in replica.models:
            return False
        return router_of(self.deployment_id).prefers_another(replica.id.unique_id, model_id)

    def takes(self, kind: str) -> bool:
        """Whether there is room, and nobody who came earlier waits for it."""
        if kind == "websocket" and self._line.claim():
            return True
        return self.has_room_now()

    def has_room_now(self) -> bool:
        return self._line.room > 0 and not self._line and not self._replica.stopping

    async def finds_room(self, kind: str) -> bool:
        """Whether it is answered here, by and by; False if another replica may have room.

        A websocket that was not passed on before stays where its connection is.
        """
        replica = self._replica
        if replica.stopping:
            return False
        tag, router = replica.id.unique_id, router_of(self.deployment_id)
        if kind == "http" and router.has_room_besides(tag):
            if await self._line.wait(self._line.patience):
                return True
            router.note_full(tag)
            return False
        most, waiting = replica.options.max_queued_requests, self._count_waiting()
        if 0 <= most <= waiting:
            pressure = replica.options.backpressure
            raise BackPressureError(waiting, most, pressure.status_code, pressure.retry_after_s)
        return await self._line.wait()

    def _count_waiting(self) -> int:
        return len(self._line) + router_of(self.deployment_id).waiting()

    async def place_with_room(self) -> str | None:
        """Where a websocket's connection should go, when there is room; None for here."""
        most = self._replica.options.max_queued_requests
        waits = not 0 <= most <= self._count_waiting()
        return await place_with_room(self._replica, self._line, waits)

    async def answer(
        self, context: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Count the request in, have it answered, count it out."""
        token = self._replica.begin(context)
        try:
            await self.respond_in_context(context, scope, receive, send)
        finally:
            self._replica.end(token)

    async def respond_in_context(
        self, context: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Have the user's code answer, knowing its request, which was counted already."""
        serve_context._request.set(context)
        try:
            await self._respond(scope, receive, send)
        except asyncio.CancelledError:
            cancel_children(context)
            raise

    async def _respond(self, scope: Scope, receive: Receive, send: Send) -> None:
        if self._app is not None:
            views.current.set(self._code.instance)
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

    async def _stream(self, items: Any, send: Send) -> None:
        """What a generator yields, as it comes."""
        if inspect.isgenerator(items):
            items = self._code.in_steps(items)
        headers = [(b"content-type", b"text/plain; charset=utf-8")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        async for item in items:
            await send({"type": "http.response.body", "body": chunk(item), "more_body": True})
        await send({"type": "http.response.body", "body": b""})


def _takes_argument(function: Any) -> bool:
    """Whether it is to be called with the request."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    named = (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD)
    return any(parameter.kind not in named for parameter in parameters)
