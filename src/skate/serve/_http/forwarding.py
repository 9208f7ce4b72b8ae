"""Requests that another process answers: through a handle, as a stream of ASGI messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

from skate.serve._http.answers import AsgiApp, Message, Receive, Scope, Send
from skate.serve._http.uploads import ForwardedBody, offered
from skate.serve._identity import DeploymentID
from skate.serve._routing.requests import HTTP
from skate.serve.context import RequestContext

_CARRIED = (
    "type", "asgi", "http_version", "server", "client", "scheme", "method", "root_path", "path",
    "raw_path", "query_string", "headers",
)  # fmt: skip


async def forward(
    id: DeploymentID,
    context: RequestContext,
    scope: Scope,
    receive: Receive,
    send: Send,
    actor: str,
) -> None:
    """Have a replica of the deployment answer; `actor` is the one that this process is of."""
    if scope["type"] == "websocket":
        # Its connection should have been passed on; nobody was there to take it.
        await send({"type": "websocket.close", "code": 1013})
        return
    from skate.serve.handle import DeploymentHandle

    handle = DeploymentHandle(
        id.name,
        id.app_name,
        method_name=HTTP,
        stream=True,
        multiplexed_model_id=context.multiplexed_model_id,
        session_id=context.session_id,
    )
    first = await receive()
    carried = {name: scope[name] for name in _CARRIED if name in scope}
    with offered(actor, receive) as reference:
        rest = reference if first.get("more_body") else None
        response = handle.remote(context, carried, first.get("body", b""), rest)
        try:
            async for messages in response:
                for message in messages:
                    await send(message)
        except asyncio.CancelledError:
            response.cancel()
            raise


async def respond_in_messages(
    respond: AsgiApp, scope: Scope, body: ForwardedBody
) -> AsyncIterator[list[Message]]:
    """Yield the messages that `respond` sends, several at a time if they come fast."""
    outbox: list[Message] = []
    news = asyncio.Event()

    async def send(message: Message) -> None:
        outbox.append(message)
        news.set()

    task = asyncio.ensure_future(respond(scope, body.receive, send))
    task.add_done_callback(lambda _: news.set())
    try:
        while not task.done() or outbox:
            await news.wait()
            news.clear()
            if outbox:
                messages, outbox[:] = list(outbox), []
                yield messages
        await task
    finally:
        task.cancel()
        body.end()
