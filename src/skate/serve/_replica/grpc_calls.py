"""A call by gRPC, inside the replica: its message in, the bytes of the answer out.

The process that has the connection calls `ANSWER` or `STREAM` in the place of a method of the
user's, and says which method it is for. The answer brings the call's context back.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import skate
from skate.serve._identity import GRPC_SERVER, NAMESPACE
from skate.serve.exceptions import SkateServeError, gRPCStatusError
from skate.serve.grpc_util import RayServegRPCContext, gRPCInputStream

if TYPE_CHECKING:
    from skate.serve._replica.user_code import UserCode

ANSWER = "__grpc_answer__"
STREAM = "__grpc_stream__"


class MessageStream(NamedTuple):
    """Stands for the messages of a client, which the process with the connection has."""

    key: str

    async def read(self) -> AsyncIterator[Any]:
        """Yield the messages as they come."""
        server: Any = skate.get_actor(GRPC_SERVER, namespace=NAMESPACE)
        while messages := await server.next_message.remote(self.key):
            yield messages[0]


class GrpcCalls:
    """Calls the user's methods with messages."""

    def __init__(self, code: UserCode) -> None:
        self._code = code

    async def answer(
        self, method: str, message: object, context: RayServegRPCContext
    ) -> tuple[bytes, RayServegRPCContext]:
        """Return the bytes of the one answer."""
        try:
            args, kwargs = self._arguments(method, message, context)
            result = await self._code.call(method, args, kwargs)
            return _message_bytes(result, method), context
        except Exception as error:
            raise _with_status(error, context) from error

    async def stream(
        self, method: str, message: object, context: RayServegRPCContext
    ) -> AsyncIterator[bytes | RayServegRPCContext]:
        """Yield the bytes of each answer, and the context at the end."""
        try:
            args, kwargs = self._arguments(method, message, context)
            async for item in self._code.stream(method, args, kwargs):
                yield _message_bytes(item, method)
        except Exception as error:
            raise _with_status(error, context) from error
        yield context

    def _arguments(
        self, method: str, message: object, context: RayServegRPCContext
    ) -> tuple[tuple[object, ...], dict[str, object]]:
        function = self._method(method)
        if isinstance(message, MessageStream):
            message = gRPCInputStream(message.read())
        wants_context = "grpc_context" in inspect.signature(function).parameters
        return (message,), {"grpc_context": context} if wants_context else {}

    def _method(self, name: str) -> Callable[..., object]:
        """Return the user's method.

        Raises:
            gRPCStatusError: If there is none, with the code that says so.
        """
        try:
            return self._code.method(name)[0]
        except SkateServeError as error:
            from grpc import StatusCode

            text = f"{name} is no method of the application's deployment {self._code.name}"
            raise gRPCStatusError(error, StatusCode.UNIMPLEMENTED, text) from None


def _message_bytes(result: object, method: str) -> bytes:
    serialize = getattr(result, "SerializeToString", None)
    if serialize is None:
        raise TypeError(
            f"{method} answers gRPC and has to return or yield messages of its service; got "
            f"{result!r} of type {type(result).__name__}"
        )
    payload: bytes = serialize()
    return payload


def _with_status(error: Exception, context: RayServegRPCContext) -> Exception:
    """Return the error, with the status that the user's code had set before."""
    code = context.code()
    return gRPCStatusError(error, code, context.details()) if code else error
