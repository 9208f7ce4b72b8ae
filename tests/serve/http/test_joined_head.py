"""The head of a response goes out with what follows at once."""

from __future__ import annotations

import asyncio
from typing import Any

from skate.serve._http.answers import send_value
from skate.serve._http.joined_head import JoinedHead
from tests.serve.http.shared_port import REQUEST, A, FakeApp, connect, on_a_loop, shared_port


class Sent(asyncio.Transport):
    """Notes what is sent at a time, and the end."""

    def __init__(self) -> None:
        self.pieces: list[bytes] = []

    def write(self, data: Any) -> None:
        self.pieces.append(data)

    def close(self) -> None:
        self.pieces.append(b"end")


def sending() -> tuple[JoinedHead, list[bytes]]:
    transport = Sent()
    return JoinedHead(transport, asyncio.get_running_loop()), transport.pieces


@on_a_loop
async def test_head_and_body_are_one_piece() -> None:
    response, pieces = sending()
    response.write(b"head")
    response.write(b"body")
    assert pieces == [b"headbody"]
    await asyncio.sleep(0)
    assert pieces == [b"headbody"]


@on_a_loop
async def test_a_head_waits_for_nothing_that_comes_later() -> None:
    response, pieces = sending()
    response.write(b"head")
    await asyncio.sleep(0)
    assert pieces == [b"head"]
    response.write(b"one")
    response.write(b"two")
    assert pieces == [b"head", b"one", b"two"]


@on_a_loop
async def test_a_large_body_is_not_copied() -> None:
    response, pieces = sending()
    body = bytes(1_000_000)
    response.write(b"head")
    response.write(body)
    assert pieces == [b"head", body]
    assert pieces[1] is body


@on_a_loop
async def test_a_head_is_sent_before_the_end() -> None:
    response, pieces = sending()
    response.write(b"head")
    response.close()
    await asyncio.sleep(0)
    assert pieces == [b"head", b"end"]


@on_a_loop
async def test_what_else_a_transport_can_do_comes_behind_the_head() -> None:
    """Another uvicorn may use it."""
    response, pieces = sending()
    response.write(b"head")
    response.writelines([b"bo", b"dy"])
    response.write(b"more")
    assert pieces == [b"head", b"body", b"more"]


class Slow(FakeApp):
    """Has a head at once, and a body when it may."""

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"2")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await self.may_answer.wait()
        await send({"type": "http.response.body", "body": b"ab"})


@on_a_loop
async def test_a_client_hears_the_head_of_a_slow_response() -> None:
    async with shared_port() as here:
        app = Slow(A, "A")
        app.may_answer.clear()
        await here.serve(app)
        reader, writer = await connect(here)
        writer.write(REQUEST)
        assert b"200 OK" in await reader.readuntil(b"\r\n\r\n")
        app.may_answer.set()
        assert await reader.readexactly(2) == b"ab"
        writer.close()


class Short(FakeApp):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        await send_value(send, self.name)


@on_a_loop
async def test_a_head_alone_is_an_answer() -> None:
    async with shared_port() as here:
        await here.serve(Short(A, "A"))
        async with here.client() as client:
            for _ in range(2):  # on one connection
                answer = await client.head("/")
                assert (answer.status_code, answer.headers["content-length"]) == (200, "1")
                assert (await client.get("/")).text == "A"
