"""Requests of which two readers could think differently where they end, or whose they are:
refused, none answered."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.serve.http.shared_port import (
    WEBSOCKET,
    A,
    Reads,
    ask,
    connect,
    on_a_loop,
    said,
    shared_port,
)

HEAD = b"POST / HTTP/1.1\r\nhost: x\r\n"
CHUNKS = b"transfer-encoding: chunked\r\n\r\n0\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n"
SMUGGLED = b"GET /smuggled HTTP/1.1\r\nhost: x\r\n\r\n"
FORMS = {
    "length and chunks": HEAD + b"content-length: 4\r\n" + CHUNKS,
    "chunks and length": CHUNKED + b"content-length: 4\r\n\r\n0\r\n\r\n",
    "two lengths": HEAD + b"content-length: 0\r\ncontent-length: 5\r\n\r\n",
    "lengths in one line": HEAD + b"content-length: 0, 5\r\n\r\n",
    "a signed length": HEAD + b"content-length: +0\r\n\r\n",
    "a negative length": HEAD + b"content-length: -1\r\n\r\n",
    "a length in another base": HEAD + b"content-length: 0x0\r\n\r\n",
    "a length of words": HEAD + b"content-length: none\r\n\r\n",
    "a length without end": HEAD + b"content-length: " + 40 * b"9" + b"\r\n\r\n",
    "an unknown encoding": HEAD + b"transfer-encoding: xchunked\r\n\r\n0\r\n\r\n",
    "chunks not last": HEAD + b"transfer-encoding: chunked, identity\r\n\r\n0\r\n\r\n",
    "two encodings": HEAD
    + b"transfer-encoding: chunked\r\ntransfer-encoding: identity\r\n\r\n0\r\n\r\n",
    "a space before the colon": HEAD + b"transfer-encoding : chunked\r\n\r\n0\r\n\r\n",
    "a length with such a space": HEAD + b"content-length : 5\r\n\r\n",
    "a folded line": HEAD + b"transfer-encoding:\r\n chunked\r\n\r\n0\r\n\r\n",
    "a zero byte": HEAD + b"content-length: 0\0\r\n\r\n",
    "a carriage return alone": HEAD + b"x: a\rtransfer-encoding: chunked\r\n\r\n",
    "a line without a colon": HEAD + b"content-length\r\n\r\n",
    "a size of a chunk in words": CHUNKED + b"\r\nx\r\n\r\n",
    "a negative chunk": CHUNKED + b"\r\n-1\r\n\r\n",
    "a chunk in another base": CHUNKED + b"\r\n0x0\r\n\r\n",
    "a chunk without end": CHUNKED + b"\r\n" + 20 * b"f" + b"\r\n",
    "a chunk longer than it says": CHUNKED + b"\r\n1\r\nabc\r\n0\r\n\r\n",
    "a space in the path": b"GET /a b HTTP/1.1\r\nhost: x\r\n\r\n",
    "two hosts": b"GET / HTTP/1.1\r\nhost: x\r\nHost: y\r\n\r\n",
    "two hosts of a websocket": (WEBSOCKET % b"a").replace(b"\r\n", b"\r\nhost: x\r\n", 1),
    "no host": b"GET / HTTP/1.1\r\nx: y\r\n\r\n",
    "no host of a websocket": (WEBSOCKET % b"a").replace(b"host: x\r\n", b"", 1),
    "no version that there is": b"GET / HTTP/9.9\r\nhost: x\r\n\r\n",
}  # fmt: skip


class Counts(Reads):
    """Knows which paths it was asked for."""

    def __init__(self) -> None:
        super().__init__(A, "A")
        self.paths: list[str] = []

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        self.paths.append(scope["path"])
        await super().answer(context, scope, receive, send)


@pytest.mark.parametrize("form", FORMS)
def test_it_is_refused_and_what_follows_is_never_read(form: str) -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here:
            app = Counts()
            await here.serve(app)
            heard = await asyncio.wait_for(said(here, FORMS[form] + SMUGGLED), 20)
            assert heard.startswith(b"HTTP/1.1 400 ")
            assert heard.count(b"HTTP/1.1 ") == 1
            assert "/smuggled" not in app.paths
            client = await connect(here)
            assert await ask(client) == "A"
            client[1].close()

    test()


def test_a_request_of_http_1_0_needs_no_host() -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here:
            await here.serve(Counts())
            heard = await asyncio.wait_for(said(here, b"GET / HTTP/1.0\r\n\r\n"), 20)
            assert heard.startswith(b"HTTP/1.1 200 ")

    test()
