"""What methods of deployments that answer gRPC are given besides the message.

A method with a parameter `grpc_context` gets a `RayServegRPCContext`; one that a client sends
many messages to gets a `gRPCInputStream` in the place of the message.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from skate._core.public_names import name_publicly

if TYPE_CHECKING:
    import grpc

    from skate.serve._grpc.call_context import CallContext

__all__ = ["RayServegRPCContext", "gRPCInputStream"]

T = TypeVar("T")
Metadata = list[tuple[str, Any]]

_REQUEST_ID = "request_id"


class RayServegRPCContext:
    """What is known of a call by gRPC, and what its answer says besides the message.

    It has the methods of `grpc.ServicerContext` that do not need the connection, and travels to
    the replica and back.

    Args:
        grpc_context: The context that gRPC made for the call.
    """

    def __init__(self, grpc_context: CallContext) -> None:
        self._auth_context: Mapping[str, Any] = grpc_context.auth_context()
        self._code: grpc.StatusCode | None = grpc_context.code()
        self._details: str = grpc_context.details()
        self._invocation_metadata: Metadata = _pairs(grpc_context.invocation_metadata())
        self._peer: str = grpc_context.peer()
        self._peer_identities: Any = grpc_context.peer_identities()
        self._peer_identity_key: str | None = grpc_context.peer_identity_key()
        self._trailing_metadata: Metadata = _pairs(grpc_context.trailing_metadata())
        self._compression: grpc.Compression | None = None

    # -- the call --------------------------------------------------------------------------------

    def invocation_metadata(self) -> Metadata:
        """Return what the client has sent as metadata."""
        return self._invocation_metadata

    def request_id(self) -> str | None:
        """Return the id of the request, if the client gave one."""
        return self._sent(_REQUEST_ID)

    def application(self) -> str | None:
        """Return the name of the application, if the client gave one."""
        return self._sent("application")

    def multiplexed_model_id(self) -> str | None:
        """Return which model it is for, if the client said so."""
        return self._sent("multiplexed_model_id")

    def traceparent(self) -> str | None:
        """Return the client's trace, if it sent one."""
        return self._sent("traceparent")

    def tracestate(self) -> str | None:
        """Return the state of the client's trace, if it sent one."""
        return self._sent("tracestate")

    def _sent(self, key: str) -> str | None:
        return dict(self._invocation_metadata).get(key)

    def auth_context(self) -> Mapping[str, Any]:
        """Return the properties of the client's authentication."""
        return self._auth_context

    def peer(self) -> str:
        """Return who calls, in gRPC's words."""
        return self._peer

    def peer_identities(self) -> Any:
        """Return the identities of the client; None if it is not authenticated."""
        return self._peer_identities

    def peer_identity_key(self) -> str | None:
        """Return which property of the authentication identifies the client."""
        return self._peer_identity_key

    # -- the answer ------------------------------------------------------------------------------

    def code(self) -> grpc.StatusCode | None:
        """Return the status code of the answer, if it was set."""
        return self._code

    def details(self) -> str:
        """Return the text of the status, if it was set."""
        return self._details

    def trailing_metadata(self) -> Metadata:
        """Return what is sent after the answer."""
        return self._trailing_metadata

    def set_code(self, code: grpc.StatusCode | None) -> None:
        """Set the status code of the answer.

        Args:
            code: A `grpc.StatusCode`.
        """
        self._code = code

    def set_details(self, details: str) -> None:
        """Set the text of the status.

        Args:
            details: The text.
        """
        self._details = details

    def set_compression(self, compression: grpc.Compression) -> None:
        """Set how the answer is compressed.

        No effect where one of the two sides sends a stream: the answer has begun by then.

        Args:
            compression: A `grpc.Compression`.
        """
        self._compression = compression

    def set_trailing_metadata(self, trailing_metadata: Sequence[tuple[str, Any]]) -> None:
        """Set what is sent after the answer; the id of the request stays.

        Args:
            trailing_metadata: Pairs of key and value.
        """
        kept = [pair for pair in self._trailing_metadata if pair[0] == _REQUEST_ID][:1]
        self._trailing_metadata = [*kept, *trailing_metadata]

    def _set_on_grpc_context(self, grpc_context: CallContext, has_begun: bool = False) -> None:
        """Have the answer, of which a part may be sent, say what was set here."""
        if self._code:
            grpc_context.set_code(self._code)
        if self._compression and not has_begun:
            grpc_context.set_compression(self._compression)
        if self._details:
            grpc_context.set_details(self._details)
        if self._trailing_metadata:
            grpc_context.set_trailing_metadata(self._trailing_metadata)


def _pairs(metadata: Iterable[tuple[str, Any]] | None) -> Metadata:
    return [(key, value) for key, value in metadata or ()]


class gRPCInputStream(AsyncIterator[T]):  # noqa: N801 - the name is Ray's
    """The messages that a client sends in one call: `async for message in stream`.

    Args:
        request_iterator: Where they come from.
        cancel_event: Is set when no more are wanted; by default an own one.
    """

    def __init__(
        self, request_iterator: AsyncIterator[T], *, cancel_event: asyncio.Event | None = None
    ) -> None:
        self._request_iterator = request_iterator
        self._cancel_event = cancel_event or asyncio.Event()
        self._exhausted = False

    def __aiter__(self) -> gRPCInputStream[T]:
        return self

    async def __anext__(self) -> T:
        if not self._exhausted and not self._cancel_event.is_set():
            try:
                return await self._request_iterator.__anext__()
            except StopAsyncIteration:
                pass
        self._exhausted = True
        raise StopAsyncIteration

    def is_cancelled(self) -> bool:
        """Return whether no more messages are wanted."""
        return self._cancel_event.is_set()

    def cancel(self) -> None:
        """Take no more messages: the iteration ends."""
        self._cancel_event.set()

    @property
    def is_exhausted(self) -> bool:
        """Whether there are no more messages."""
        return self._exhausted


name_publicly(__name__)
