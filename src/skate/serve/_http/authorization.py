"""Who may ask: those with the bearer token, where one was given."""

from __future__ import annotations

import hmac

from skate.serve._http.answers import Scope, Send, send_value

_CHALLENGE = [(b"www-authenticate", b"Bearer")]
_TEXT = "Unauthorized: send the header `Authorization: Bearer <token>`."


def may_ask(scope: Scope, token: bytes) -> bool:
    """Whether a request carries the token; how long this takes tells nothing about it."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    scheme, _, credentials = given[0].partition(b" ") if len(given) == 1 else (b"", b"", b"")
    matches = hmac.compare_digest(credentials.strip(), token)
    return matches and scheme.lower() == b"bearer"


async def refuse(scope: Scope, send: Send) -> None:
    """Answer 401, to a websocket's handshake as well."""
    if scope["type"] == "http":
        await send_value(send, _TEXT, 401, _CHALLENGE)
    elif "websocket.http.response" in scope.get("extensions", {}):
        start = {"type": "websocket.http.response.start", "status": 401, "headers": _CHALLENGE}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": _TEXT.encode()})
    else:
        await send({"type": "websocket.close", "code": 1008})
