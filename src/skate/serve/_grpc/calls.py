"""One call by gRPC: whose it is, the replica's answer, and how it ends."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from skate._core.errors import format_remote_traceback
from skate._core.optional_imports import ray_is_skate
from skate.serve import context as serve_context
from skate.serve._identity import new_request_id
from skate.serve._measurements import AnsweredRequest
from skate.serve._replica import grpc_calls
from skate.serve.context import RequestContext
from skate.serve.exceptions import (
    BackPressureError,
    DeploymentUnavailableError,
    gRPCStatusError,
)
from skate.serve.grpc_util import RayServegRPCContext

if TYPE_CHECKING:
    import grpc

    from skate.serve._grpc.call_context import CallContext
    from skate.serve._grpc.server import GrpcServer

logger = logging.getLogger("skate.serve")

_MAX_DETAILS = 4096  # characters; trailers of HTTP/2 are limited


class GrpcCallError(Exception):
    """A call ends with this status."""

    def __init__(self, code: grpc.StatusCode, details: str) -> None:
        super().__init__(code, details)
        self.code = code
        self.details = details

    @classmethod
    def not_found(cls, details: str) -> GrpcCallError:
        """Return the failure of a call for something that is not there."""
        import grpc

        return cls(grpc.StatusCode.NOT_FOUND, details)


class _CallStatus:
    """How a call ends."""

    name = "OK"


class GrpcCall:
    """Answers calls of one method."""

    def __init__(self, server: GrpcServer, path: str, takes_stream: bool) -> None:
        """Answer for the method at `path`, "/package.Service/Method"."""
        self._server = server
        self._method = path.rpartition("/")[2]
        self._takes_stream = takes_stream

    async def answer(self, message: Any, context: CallContext) -> bytes:
        """Return the one answer to a call."""
        sending = asyncio.Lock()
        with ExitStack() as stack, self._counted() as counted:
            deadline = self._deadline()
            try:
                response = await self._ask(message, context, stack, sending)
                payload: bytes
                payload, said = await _within(_value(response), deadline, response)
            except Exception as error:
                async with sending:
                    await self._fail(context, error, counted)
            async with sending:
                said._set_on_grpc_context(context, has_begun=self._takes_stream)
                return payload

    async def stream(self, message: Any, context: CallContext) -> AsyncIterator[bytes]:
        """Yield the answers to a call."""
        with ExitStack() as stack, self._counted() as counted:
            deadline = self._deadline()
            try:
                response = await self._ask(message, context, stack, None)
                while True:
                    item = await _within(_next(response), deadline, response)
                    if isinstance(item, RayServegRPCContext):
                        break
                    yield item
            except Exception as error:
                await self._fail(context, error, counted)
            except GeneratorExit:  # the client is gone
                response.cancel()
                raise
            item._set_on_grpc_context(context, has_begun=True)

    def _deadline(self) -> float | None:
        timeout = self._server.timeout_s
        return None if not timeout else time.monotonic() + timeout

    async def _ask(
        self, message: Any, context: CallContext, stack: ExitStack, sending: asyncio.Lock | None
    ) -> Any:
        """Send the call to a replica, and return its response.

        Args:
            message: What the client has sent, or what yields it.
            context: Which gRPC made.
            stack: What ends with the call.
            sending: Held while something is sent to the client; None if answers are, at any time.
        """
        stream = sending is None
        said = dict(context.invocation_metadata() or ())
        request_id = said.get("request_id") or new_request_id()
        context.set_trailing_metadata([("request_id", request_id)])
        name = said.get("application")
        handle = (await self._server.handle_of(name)).options(
            method_name=grpc_calls.STREAM if stream else grpc_calls.ANSWER,
            multiplexed_model_id=said.get("multiplexed_model_id"),
            session_id=said.get("session_id"),
            stream=stream,
        )
        # Not to be reset: each call is a task of its own, and so has its own context.
        serve_context._request.set(
            RequestContext(route=handle.app_name, request_id=request_id, app_name=handle.app_name)
        )
        if self._takes_stream:
            message = stack.enter_context(self._server.offered(message, context, sending))
        return handle.remote(self._method, message, RayServegRPCContext(context))

    @contextmanager
    def _counted(self) -> Iterator[_CallStatus]:
        """Count a call that ends in this block, with the status that was given by then."""
        requests, status, began = self._server.requests, _CallStatus(), time.monotonic()
        requests.ongoing += 1
        try:
            yield status
        except (asyncio.CancelledError, GeneratorExit):
            status.name = "CANCELLED"
            raise
        finally:
            requests.ongoing -= 1
            application = serve_context.request_context().app_name  # as `_ask` has found it
            deployment = self._server.ingress_of(application)
            answered = AnsweredRequest(
                self._method, application, application, deployment, status.name
            )
            requests.count(answered, time.monotonic() - began)

    async def _fail(self, context: CallContext, error: Exception, counted: _CallStatus) -> None:
        """End the call with the status that an error stands for."""
        said = context.trailing_metadata() or ()
        code, details = self._status_of(error, dict(said).get("request_id", ""))
        counted.name = code.name
        await context.abort(code, details[:_MAX_DETAILS], said)

    def _status_of(self, error: Exception, request_id: str) -> tuple[grpc.StatusCode, str]:
        from grpc import StatusCode

        if isinstance(error, GrpcCallError):
            return error.code, error.details
        if isinstance(error, gRPCStatusError) and error.grpc_code is not None:
            return error.grpc_code, error.grpc_details or self._text_of(
                error.original_exception, request_id
            )
        if isinstance(error, _TooLateError):
            return (
                StatusCode.DEADLINE_EXCEEDED,
                f"Request timed out after {self._server.timeout_s} s",
            )
        if isinstance(error, BackPressureError):
            return StatusCode.RESOURCE_EXHAUSTED, error.message
        if isinstance(error, DeploymentUnavailableError):
            shown = self._server.shows_errors
            return StatusCode.UNAVAILABLE, error.message if shown else error.public_message
        return StatusCode.INTERNAL, self._text_of(error, request_id)

    def _text_of(self, error: BaseException, request_id: str) -> str:
        """Log an error, and return what the client is told: its text may be a secret, and only
        clients of programs for Ray expect it."""
        logger.error("request %s by gRPC failed\n%s", request_id, format_remote_traceback(error))
        if self._server.shows_errors or ray_is_skate():
            return str(getattr(error, "cause", None) or error)
        return f"Internal error in the request {request_id}"


class _TooLateError(Exception):
    """There is no answer within the time that a call may take."""


async def _within(coroutine: Any, deadline: float | None, response: Any) -> Any:
    """Wait for something of a response; cancel that if it comes too late or nobody wants it."""
    left = None if deadline is None else max(0.0, deadline - time.monotonic())
    try:
        return await asyncio.wait_for(coroutine, left)
    except asyncio.CancelledError:
        response.cancel()
        raise
    except asyncio.TimeoutError as error:
        if deadline is None or time.monotonic() < deadline:
            raise RuntimeError(str(error)) from error  # of the user's code
        response.cancel()
        raise _TooLateError from None


async def _value(response: Any) -> Any:
    return await response


async def _next(response: Any) -> Any:
    return await response.__anext__()
