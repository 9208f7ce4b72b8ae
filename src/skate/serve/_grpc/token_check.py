"""Refuses calls without the token, before anything of their messages is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate.serve._authorization import has_token

if TYPE_CHECKING:
    from skate.serve._grpc.call_context import CallContext


def token_check(token: str | None, open_methods: Sequence[str]) -> list[Any]:
    """Return the interceptors of a server that asks for a token; none if there is no token.

    Args:
        token: What a client has to know.
        open_methods: Paths of methods that anybody may call, as "/package.Service/Method".
    """
    import grpc

    if not token:
        return []
    expected = token.encode()

    async def refuse(messages: Any, context: CallContext) -> None:
        how = "send the metadata ('authorization', 'Bearer <token>')"
        await context.abort(grpc.StatusCode.UNAUTHENTICATED, how)

    # Of any kind of call: messages of a stream are not received until they are asked for.
    refusal = grpc.stream_stream_rpc_method_handler(refuse)

    class TokenCheck(grpc.aio.ServerInterceptor):  # type: ignore[misc]
        async def intercept_service(self, continuation: Any, details: Any) -> Any:
            sent = details.invocation_metadata or ()
            given = [str(value).encode() for key, value in sent if key == "authorization"]
            if details.method in open_methods or has_token(given, expected):
                return await continuation(details)
            return refusal

    return [TokenCheck()]
