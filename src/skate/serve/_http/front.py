"""The ASGI application of every process that listens: whose request it is, and how it ends.

A request for the deployment of this process is answered here, in its own task; any other goes
through a handle. Either way it may time out, lose its client, or fail, and each has its answer.
"""

from __future__ import annotations

import asyncio
import logging
import math
import uuid
from typing import TYPE_CHECKING, Any, Protocol

from skate._core.errors import format_remote_traceback
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
from skate.serve._http.authorization import may_ask, refuse
from skate.serve._http.forwarding import forward
from skate.serve._http.routes import Route, Routes
from skate.serve._identity import DeploymentID
from skate.serve.context import RequestContext
from skate.serve.exceptions import BackPressureError, DeploymentUnavailableError

if TYPE_CHECKING:
    from skate.serve.config import HTTPOptions

HEALTH = "/-/healthz"  # for load balancers, which have no token
REQUEST_ID = b"x-request-id"
TIMEOUT = b"x-request-timeout-seconds"
STAYS = b"x-request-disconnect-disabled"
MODEL_ID = b"serve_multiplexed_model_id"
SESSION_ID = b"x_session_id"

_CLIENT_GONE = ("ClientDisconnected", "WebSocketDisconnect")  # uvicorn's, Starlette's
_NO_ROUTES = "There are no routes yet."

logger = logging.getLogger("skate.serve")


class Host(Protocol):
    """The replica of this process, as the front sees it."""

    @property
    def deployment_id(self) -> DeploymentID: ...

    def has_better(self, model_id: str) -> bool:
        """Whether another replica should answer a request for this model."""

    def takes(self, kind: str) -> bool:
        """Whether it takes a request now: it has not enough of them, and is not about to stop."""

    def has_room_now(self) -> bool:
        """Whether a request that comes now does not have to wait."""

    async def place_with_room(self) -> str | None:
        """Where a websocket's connection should go, when there is room; None for here."""

    async def finds_room(self, kind: str) -> bool:
        """Wait until it does; False if the request should go elsewhere."""

    async def answer(
        self, context: RequestContext, scope: Scope, receive: Receive, send: Send
    ) -> None:
        """Have the user's code answer."""


class Front:
    """Answers what arrives at this process."""

    def __init__(self, options: HTTPOptions, host: Host | None = None) -> None:
        self.routes = Routes()
        self.had_routes = False
        self._options = options
        self._token = options.auth_token and options.auth_token.encode()
        self._host = host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope["path"]
        root = scope.get("root_path")
        if root:
            path = path[len(root) :]
        if self._token and path != HEALTH and not may_ask(scope, self._token):
            await refuse(scope, send)
            return
        if path.startswith("/-/") and await self._tell(path, send):
            return
        route = self.routes.match(path)
        if route is None:
            await _not_found(scope, path, send)
            return
        exchange = Exchange(scope, send, route, self._options)
        if route.prefix != "/":
            scope["root_path"] = (root or "") + route.prefix
        await exchange.run(self._answer(route, exchange, scope, receive))

    async def _answer(
        self, route: Route, exchange: Exchange, scope: Scope, receive: Receive
    ) -> None:
        host, kind = self._host, scope["type"]
        if host is not None and host.deployment_id != route.deployment_id:
            host = None
        model_id = exchange.context.multiplexed_model_id
        if host is not None and model_id and kind == "http" and host.has_better(model_id):
            host = None
        if host is not None and (host.takes(kind) or await host.finds_room(kind)):
            await host.answer(exchange.context, scope, receive, exchange.send)
        else:
            await forward(route.deployment_id, exchange.context, scope, receive, exchange.send)

    async def _tell(self, path: str, send: Send) -> bool:
        """About the instance itself, as load balancers ask."""
        if path not in (HEALTH, "/-/routes"):
            return False
        if not self.had_routes:
            await send_value(send, _NO_ROUTES, 503)
        else:
            await send_value(send, "success" if path == HEALTH else self.routes.names())
        return True


class Exchange:
    """One request and its response."""

    __slots__ = (
        "_limit", "_options", "_send", "_started", "_task", "_timed_out", "_type", "context",
    )  # fmt: skip

    def __init__(self, scope: Scope, send: Send, route: Route, options: HTTPOptions) -> None:
        self._options = options
        self._send = send
        self._type = scope["type"]
        self._started = False
        self._timed_out = False
        self._limit = options.request_timeout_s
        self._task: asyncio.Task[None] = asyncio.current_task()  # type: ignore[assignment]
        stays, request_id, model, session = False, "", "", ""
        for name, value in scope["headers"]:
            if name == REQUEST_ID:
                request_id = value.decode("latin-1")
            elif name == TIMEOUT:
                self._limit = _limited(value, options.request_timeout_s)
            elif name == STAYS:
                stays = value == b"?1"
            elif name.startswith((b"serve", b"x")):
                known = name.replace(b"-", b"_")
                if known == MODEL_ID:
                    model = value.decode("latin-1")
                elif known == SESSION_ID:
                    session = value.decode("latin-1")
        if not request_id:
            request_id = str(uuid.uuid4())
            scope["headers"].append((REQUEST_ID, request_id.encode()))
        self.context = RequestContext(
            route.prefix, request_id, route.deployment_id.app_name, model, session, True
        )
        if not stays:
            scope[TASK] = self._task

    async def send(self, message: Message) -> None:
        """Send a part of the response; the first names the request."""
        if not self._started and message["type"] in ("http.response.start", "websocket.accept"):
            self._started = True
            headers = list(message.get("headers") or ())
            headers.append((REQUEST_ID, self.context.request_id.encode("latin-1")))
            message["headers"] = headers
        await self._send(message)

    async def run(self, answer: Any) -> None:
        """Wait for the answer, or say why there is none."""
        timer = None
        if self._limit and self._type == "http":
            timer = asyncio.get_running_loop().call_later(self._limit, self._time_out)
        try:
            await answer
        except asyncio.CancelledError:
            if not self._timed_out:
                return  # the client is gone
            await self._fail(
                408, f"No answer to {self.context.request_id} within {self._limit} s: timed out"
            )
        except BackPressureError as error:
            await self._fail(error.status_code, error.message, retry_after(error.retry_after_s))
        except DeploymentUnavailableError as error:
            shown = self._options.show_errors
            await self._fail(503, error.message if shown else error.public_message)
        except Exception as error:
            if type(error).__name__ not in _CLIENT_GONE:
                await self._unexpected(error)
        finally:
            if timer is not None:
                timer.cancel()

    def _time_out(self) -> None:
        self._timed_out = True
        self._task.cancel()

    async def _unexpected(self, error: Any) -> None:
        if hasattr(error, "status_code") and hasattr(error, "detail"):  # Starlette's, FastAPI's
            headers = [(k.encode(), v.encode()) for k, v in (error.headers or {}).items()]
            await self._fail(error.status_code, {"detail": error.detail}, headers)
            return
        text = format_remote_traceback(error)
        logger.error("request %s failed\n%s", self.context.request_id, text)
        await self._fail(500, text if self._options.show_errors else "Internal Server Error")

    async def _fail(self, status: int, text: Any, headers: Headers | None = None) -> None:
        """A response that began and cannot be completed is cut off by the server."""
        if self._started:
            return
        if self._type == "http":
            await send_value(self.send, text, status, headers or ())
        else:
            await self._send({"type": "websocket.close", "code": 1011})


async def _not_found(scope: Scope, path: str, send: Send) -> None:
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    text = f"Path '{path}' not found: no application answers there; GET /-/routes lists them."
    await send_value(send, text, 404)


def _limited(value: bytes, most: float | None) -> float | None:
    """The seconds that a client asks for, of the most that there are; zero or less means none."""
    try:
        seconds = float(value)
    except ValueError:
        return most
    asked = seconds if seconds > 0 else math.inf
    least = min(asked, most or math.inf)
    return None if math.isinf(least) else least
