"""What gRPC tells of a call, and takes for its answer; grpcio has no types of its own for it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

if TYPE_CHECKING:
    import grpc

Metadata = Sequence[tuple[str, Any]]


class CallContext(Protocol):
    """The context of a call, on the side of the server: `grpc.aio.ServicerContext`."""

    def invocation_metadata(self) -> Iterable[tuple[str, Any]] | None:
        """Return what the client has sent as metadata."""

    def auth_context(self) -> Mapping[str, Any]:
        """Return the properties of the client's authentication."""

    def peer(self) -> str:
        """Return who calls."""

    def peer_identities(self) -> Any:
        """Return the identities of the client."""

    def peer_identity_key(self) -> str | None:
        """Return which property of the authentication identifies the client."""

    def code(self) -> grpc.StatusCode | None:
        """Return the status code of the answer, if it was set."""

    def details(self) -> str:
        """Return the text of the status, if it was set."""

    def trailing_metadata(self) -> Metadata | None:
        """Return what is sent after the answer."""

    def set_code(self, code: grpc.StatusCode) -> None:
        """Set the status code of the answer."""

    def set_details(self, details: str) -> None:
        """Set the text of the status."""

    def set_compression(self, compression: grpc.Compression) -> None:
        """Set how the answer is compressed."""

    def set_trailing_metadata(self, trailing_metadata: Metadata) -> None:
        """Set what is sent after the answer."""

    async def send_initial_metadata(self, initial_metadata: Metadata) -> None:
        """Begin the answer."""

    async def abort(
        self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()
    ) -> NoReturn:
        """End the call with this status, by an error."""
