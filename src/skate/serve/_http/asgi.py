"""The ASGI application of every process that listens: whose request it is, and how it ends.

A request for the deployment of this process is answered here, in its own task; any other goes
through a handle. Either way it may time out, lose its client, or fail, and each has its answer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import time
from collections.abc import Awaitable
from typing import TYPE_CHECKING

from skate._core.errors import format_remote_traceback
from skate._core.measurements import announce_measurements
from skate.serve._authorization import has_token
from skate.serve._http.answers import (
    TASK,
    Headers,
    Message,
    Receive,
    Scope,
    Send,
    retry_after,
    send_value,
)
from skate.serve._http.forwarding import forward
from skate.serve._http.routes import Route, Routes
from skate.serve._identity import CONTROLLER, DeploymentID, new_request_id
from skate.serve._measurements import AnsweredRequest, IngressRequests
from skate.serve.context import RequestContext
from skate.serve.exceptions import BackPressureError, DeploymentUnavailableError

if TYPE_CHECKING:
    from skate.serve._http.replica_app import ReplicaApp
    from skate.serve.config import HTTPOptions

HEALTH = "/-/healthz"  # for load balancers, which have no token
REQUEST_ID = b"x-request-id"
TIMEOUT = b"x-request-timeout-seconds"
STAYS = b"x-request-disconnect-disabled"
MODEL_ID = b"serve_multiplexed_model_id"
SESSION_ID = b"x_session_id"
_OURS = (b"x", b"serve")  # how the names of these begin

_CLIENT_GONE = ("ClientDisconnected", "ClientDisconnect", "WebSocketDisconnect")  # uvicorn's, and
# Starlette's: of a client that went away, or sent what is no HTTP, in the middle of its body
_METHODS = frozenset(
    ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE")
)
_OTHER_METHOD = "OTHER"  # in numbers: clients may invent as many as they like
_CLIENT_LEFT, _SWITCHED = 499, 101  # statuses that are not sent
_NO_ROUTES = "Route table is not populated yet."  # the words that health checks know
_CHALLENGE = [(b"www-authenticate", b"Bearer")]
_UNAUTHORIZED = "Unauthorized: send the header `Authorization: Bearer <token>`."

logger = logging.getLogger("skate.serve")


class HttpApp:
    """Answers what arrives at this process."""

    def __init__(self, options: HTTPOptions, replica: ReplicaApp | None = None) -> None:
        """Answer by `replica`, if this process has one, and by handles to others."""
        self.routes = Routes()
        self.had_routes = False
        self._options = options
        self._token = options.auth_token.encode() if options.auth_token else b""
        self._replica = replica
        self._requests = IngressRequests("HTTP")
        announce_measurements(self._requests, IngressRequests.families)

    def set_routes(self, routes: Routes) -> None:
        """Answer by these routes from now on."""
        self.routes = routes
        self.had_routes |= bool(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, as ASGI has it."""
        path = scope["path"]
        root = scope.get("root_path")
        if root:
            path = path[len(root) :]
        if self._token and path != HEALTH and not _is_authorized(scope, self._token):
            await _send_unauthorized(scope, send)
            return
        if path.startswith("/-/") and await self._describe(path, send):
            return
        route = self.routes.match(path)
        if route is None:
            await _send_not_found(scope, path, send)
            self._count(scope, "", None, 404, 0.0)
            return
        exchange = HttpExchange(scope, send, route, self._options)
        if route.prefix != "/":
            scope["root_path"] = (root or "") + route.prefix
        began = time.monotonic()
        self._requests.ongoing += 1
        try:
            await exchange.run(self._answer(route, exchange, scope, receive))
        finally:
            self._requests.ongoing -= 1
        seconds = time.monotonic() - began
        pattern, status = exchange.context.pattern, exchange.status
        self._count(scope, pattern, route.deployment_id, status, seconds)

    def _count(
        self, scope: Scope, route: str, id: DeploymentID | None, status: int, seconds: float
    ) -> None:
        if scope["type"] != "http":
            return
        method = scope["method"] if scope["method"] in _METHODS else _OTHER_METHOD
        name, application = (id.name, id.app_name) if id is not None else ("", "")
        answered = AnsweredRequest(method, route, application, name, str(status))
        self._requests.count(answered, seconds)

    async def _answer(
        self, route: Route, exchange: HttpExchange, scope: Scope, receive: Receive
    ) -> None:
        replica = self._replica
        if replica is not None and replica.deployment_id == route.deployment_id:
            admission, kind = replica.admission, scope["type"]
            model_id = exchange.context.multiplexed_model_id
            elsewhere = kind == "http" and admission.prefers_another(model_id)
            if not elsewhere and (admission.takes(kind) or await admission.finds_room(kind)):
                await replica.answer(exchange.context, scope, receive, exchange.send)
                return
        actor = CONTROLLER if replica is None else replica.actor_name
        await forward(route.deployment_id, exchange.context, scope, receive, exchange.send, actor)

    async def _describe(self, path: str, send: Send) -> bool:
        """Answer about the instance itself, as load balancers ask; False for another path."""
        if path not in (HEALTH, "/-/routes"):
            return False
        if not self.had_routes:
            await send_value(send, _NO_ROUTES, 503)
        else:
            await send_value(send, "success" if path == HEALTH else self.routes.names())
        return True


class HttpExchange:
    """One request and its response."""

    __slots__ = (
        "_options", "_send", "_started", "_task", "_timed_out", "_timeout_s", "_type", "context",
        "status",
    )  # fmt: skip

    def __init__(self, scope: Scope, send: Send, route: Route, options: HTTPOptions) -> None:
        """Read what the headers say of the request."""
        self._options = options
        self._send = send
        self._type = scope["type"]
        self._started = False
        self.status = _CLIENT_LEFT  # unless it is answered
        self._timed_out = False
        self._timeout_s = options.request_timeout_s
        self._task: asyncio.Task[None] = asyncio.current_task()  # type: ignore[assignment]
        stays, request_id, model, session = False, "", "", ""
        for name, value in scope["headers"]:
            if not name.startswith(_OURS):
                continue
            if name == REQUEST_ID:
                request_id = value.decode("latin-1")
            elif name == TIMEOUT:
                self._timeout_s = _shorter(value, options.request_timeout_s)
            elif name == STAYS:
                stays = value == b"?1"
            elif (known := name.replace(b"-", b"_")) == MODEL_ID:
                model = value.decode("latin-1")
            elif known == SESSION_ID:
                session = value.decode("latin-1")
        if not request_id:
            request_id = new_request_id()
            scope["headers"].append((REQUEST_ID, request_id.encode()))
        self.context = RequestContext(
            route.prefix, request_id, route.deployment_id.app_name, model, session, True
        )
        if not stays:
            scope[TASK] = self._task

    def send(self, message: Message) -> Awaitable[None]:
        """Send a part of the response.

        Nothing of it is sent after the time is up: what runs in a thread goes on, and Starlette
        would send what that returns.
        """
        if self._timed_out:
            raise asyncio.CancelledError
        return self._deliver(message)

    def _deliver(self, message: Message) -> Awaitable[None]:
        """Send a message; the first names the request."""
        if not self._started and message["type"] in ("http.response.start", "websocket.accept"):
            self._started = True
            self.status = message.get("status", _SWITCHED)
            headers = list(message.get("headers") or ())
            headers.append((REQUEST_ID, self.context.request_id.encode("latin-1")))
            message["headers"] = headers
        return self._send(message)

    async def run(self, answer: Awaitable[None]) -> None:
        """Wait for the answer, or say why there is none."""
        timer = None
        if self._timeout_s and self._type == "http":
            timer = asyncio.get_running_loop().call_later(self._timeout_s, self._time_out)
        try:
            await answer
        except asyncio.CancelledError:
            if not self._timed_out:
                return  # the client is gone
            request_id = self.context.request_id
            await self._fail(
                408, f"Request {request_id} timed out after {self._timeout_s}s without an answer"
            )
        except BackPressureError as error:
            await self._fail(error.status_code, error.message, retry_after(error.retry_after_s))
        except DeploymentUnavailableError as error:
            shown = self._options.show_errors
            await self._fail(503, error.message if shown else error.public_message)
        except Exception as error:
            if type(error).__name__ not in _CLIENT_GONE:
                await self._send_error(error)
        finally:
            if timer is not None:
                timer.cancel()

    def _time_out(self) -> None:
        self._timed_out = True
        self._task.cancel()

    async def _send_error(self, error: Exception) -> None:
        status, detail = getattr(error, "status_code", None), getattr(error, "detail", None)
        if status is not None and hasattr(error, "detail"):  # Starlette's, FastAPI's
            given = getattr(error, "headers", None) or {}
            headers = [(name.encode(), value.encode()) for name, value in given.items()]
            await self._fail(status, {"detail": detail}, headers)
            return
        text = format_remote_traceback(error)
        logger.error("request %s failed\n%s", self.context.request_id, text)
        await self._fail(500, text if self._options.show_errors else "Internal Server Error")

    async def _fail(self, status: int, body: object, headers: Headers | None = None) -> None:
        """Answer with an error; the server cuts off a response that began."""
        if self._started:
            return
        if self._type == "http":
            await send_value(self._deliver, body, status, headers or ())
        else:
            await self._send({"type": "websocket.close", "code": 1011})


async def _send_not_found(scope: Scope, path: str, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    text = f"Path '{path}' not found. No application answers there; GET /-/routes lists them."
    await send_value(send, text, 404)


def _shorter(value: bytes, limit: float | None) -> float | None:
    """Return the seconds that a client asks for, up to the limit; zero or less means none."""
    try:
        seconds = float(value)
    except ValueError:
        return limit
    asked = seconds if seconds > 0 else math.inf
    least = min(asked, limit or math.inf)
    return None if math.isinf(least) else least


# -- who may ask --------------------------------------------------------------------------------


def _is_authorized(scope: Scope, token: bytes) -> bool:
    """Return whether a request has the token."""
    given = [value for name, value in scope["headers"] if name == b"authorization"]
    return has_token(given, token)


async def _send_unauthorized(scope: Scope, send: Send) -> None:
    """Answer 401, to a websocket's handshake as well."""
    if scope["type"] == "http":
        await send_value(send, _UNAUTHORIZED, 401, _CHALLENGE)
    elif "websocket.http.response" in scope.get("extensions", {}):
        start = {"type": "websocket.http.response.start", "status": 401, "headers": _CHALLENGE}
        await send(start)
        await send({"type": "websocket.http.response.body", "body": _UNAUTHORIZED.encode()})
    else:
        await send({"type": "websocket.close", "code": 1008})
