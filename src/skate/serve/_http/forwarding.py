"""Requests that another process answers: through a handle, as a stream of ASGI messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from skate.serve._http.answers import AsgiApp, Message, Receive, Scope, Send
from skate.serve._identity import DeploymentID
from skate.serve.context import RequestContext

_CARRIED = (
    "type", "asgi", "http_version", "server", "client", "scheme", "method", "root_path", "path",
    "raw_path", "query_string", "headers",
)  # fmt: skip

_LARGEST_BODY_BYTES = 256 * 2**20  # that one process reads for another


async def forward(
    id: DeploymentID, context: RequestContext, scope: Scope, receive: Receive, send: Send
) -> None:
    """Have a replica of the deployment answer."""
    if scope["type"] == "websocket":
        # Its connection should have been passed on; nobody was there to take it.
        await send({"type": "websocket.close", "code": 1013})
        return
    from skate.serve._replica.actor import HTTP
    from skate.serve.handle import DeploymentHandle

    handle = DeploymentHandle(
        id.name,
        id.app_name,
        method_name=HTTP,
        stream=True,
        multiplexed_model_id=context.multiplexed_model_id,
        session_id=context.session_id,
    )
    body = await _read(scope, receive)
    carried = {name: scope[name] for name in _CARRIED if name in scope}
    response = handle.remote(context, carried, body)
    try:
        async for messages in response:
            for message in messages:
                await send(message)
    except asyncio.CancelledError:
        response.cancel()
        raise


class BodyTooLargeError(Exception):
    """The body of a request that takes a detour is more than one process keeps for another."""

    status_code = 413
    headers = None
    detail = (
        f"a body of more than {_LARGEST_BODY_BYTES // 2**20} MB cannot go to another replica, "
        "which would have to answer: send it in parts, or again on a new connection"
    )


async def _read(scope: Scope, receive: Receive) -> bytes:
    announced = dict(scope["headers"]).get(b"content-length", b"0")
    if int(announced) > _LARGEST_BODY_BYTES:
        raise BodyTooLargeError
    parts: list[bytes] = []
    size, more = 0, True
    while more:
        message = await receive()
        parts.append(message.get("body", b""))
        more = message.get("more_body", False)
        size += len(parts[-1])
        if size > _LARGEST_BODY_BYTES:
            raise BodyTooLargeError
    return b"".join(parts)


async def respond_in_messages(
    respond: AsgiApp, scope: Scope, body: bytes
) -> AsyncIterator[list[Message]]:
    """Yield the messages that `respond` sends, several at a time if they come fast."""
    outbox: list[Message] = []
    news = asyncio.Event()
    inbox = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def receive() -> Any:
        message = next(inbox, None)
        return message if message is not None else await asyncio.Event().wait()

    async def send(message: Message) -> None:
        outbox.append(message)
        news.set()

    task = asyncio.ensure_future(respond(scope, receive, send))
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
