"""The page as an ASGI application: files, and what they ask for. It only reads.

Who asks must know the token, which is in the address, and must have asked for this machine by its
own name: a page elsewhere whose name was made to point here (DNS rebinding) is refused.
"""

from __future__ import annotations

import json
import math
import os
import secrets
import time
from typing import Any, Protocol

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from skate.dashboard.folder_source import RunShelf
from skate.dashboard.own_names import is_own_name

Row = dict[str, Any]

_STATIC = os.path.join(os.path.dirname(__file__), "static")
_HEADERS = (
    (
        b"content-security-policy",
        b"default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
        b"img-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    ),
    (b"x-content-type-options", b"nosniff"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cache-control", b"no-store"),
)
_SEEN = ("tasks", "failures", "ended_actors", "logs", "memory")


class PageSource(Protocol):
    """What the page is about: a session, or folders."""

    runs: RunShelf

    def news(self, seen: dict[str, int]) -> Row: ...
    def libraries(self) -> Row: ...
    def waits(self) -> Row: ...
    def objects(self) -> list[Row]: ...


class Visits:
    """Knows when somebody has looked last."""

    def __init__(self) -> None:
        self._last: float | None = None

    def note(self) -> None:
        """Note that somebody looks now."""
        self._last = time.monotonic()

    @property
    def seconds_ago(self) -> float:
        """How long ago somebody has looked; for ever, if nobody has."""
        return math.inf if self._last is None else time.monotonic() - self._last


def page(source: PageSource, token: str, visits: Visits) -> ASGIApp:
    """Return the application.

    Args:
        source: What it shows.
        token: What must be in the address.
        visits: Is told of each look.
    """
    routes = [
        Route("/api/news", _PageRoutes(source).news),
        Route("/api/libraries", _PageRoutes(source).libraries),
        Route("/api/waits", _PageRoutes(source).waits),
        Route("/api/objects", _PageRoutes(source).objects),
        Route("/api/run", _PageRoutes(source).run),
        Mount("/", StaticFiles(directory=_STATIC, html=True)),
    ]
    return _Guard(Starlette(routes=routes), token, visits)


class _Guard:
    def __init__(self, app: ASGIApp, token: str, visits: Visits) -> None:
        self._app = app
        self._token = token.encode()
        self._visits = visits

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                message = {**message, "headers": [*message["headers"], *_HEADERS]}
            await send(message)

        refusal = self._refusal(scope)
        if refusal is not None:
            await refusal(scope, receive, send_with_headers)
            return
        self._visits.note()
        path = "/" + scope["path"].removeprefix("/").partition("/")[2]
        inner = {**scope, "path": path, "raw_path": path.encode(), "root_path": ""}
        await self._app(inner, receive, send_with_headers)

    def _refusal(self, scope: Scope) -> Response | None:
        if scope["type"] != "http":
            return PlainTextResponse("only HTTP", 400)
        host = next((value for name, value in scope["headers"] if name == b"host"), b"")
        if not is_own_name(host):
            return PlainTextResponse("this page is for 127.0.0.1", 403)
        given = scope["path"].removeprefix("/").partition("/")
        if not secrets.compare_digest(given[0].encode(), self._token) or not given[1]:
            return PlainTextResponse("the address of the page has a token, as was printed", 404)
        if scope["method"] not in ("GET", "HEAD"):
            return PlainTextResponse("the page only reads", 405, {"allow": "GET, HEAD"})
        return None


class _PageRoutes:
    def __init__(self, source: PageSource) -> None:
        self._source = source

    def news(self, request: Request) -> Response:
        return _json(self._source.news({name: _number(request, name) for name in _SEEN}))

    def libraries(self, request: Request) -> Response:
        return _json(self._source.libraries())

    def waits(self, request: Request) -> Response:
        return _json(self._source.waits())

    def objects(self, request: Request) -> Response:
        return _json(self._source.objects())

    def run(self, request: Request) -> Response:
        metric = request.query_params.get("metric")
        number, version = _number(request, "number"), _number(request, "version", -1)
        try:
            return _json(self._source.runs.told(number, metric, version))
        except LookupError as error:
            return PlainTextResponse(str(error), 404)


def _number(request: Request, name: str, default: int = 0) -> int:
    text = request.query_params.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else default


def _json(value: object) -> Response:
    try:
        text = json.dumps(value, allow_nan=False, default=str)
    except ValueError:
        text = json.dumps(_finite(value), default=str)
    return Response(text, media_type="application/json")


def _finite(value: object) -> Any:
    """Return the value with text in the place of numbers that JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, dict):
        return {name: _finite(inner) for name, inner in value.items()}
    return [_finite(inner) for inner in value] if isinstance(value, (list, tuple)) else value
