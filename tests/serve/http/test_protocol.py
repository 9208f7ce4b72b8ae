"""Clients that are slow or greedy."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from types import SimpleNamespace
from typing import Any

import pytest

from skate.serve._http.answers import send_value
from skate.serve._http.protocol import http_protocol_class
from tests.serve.http.shared_port import (
    REQUEST,
    WEBSOCKET,
    A,
    FakeAdmission,
    FakeApp,
    Reads,
    SharedPort,
    answer,
    ask,
    connect,
    on_a_loop,
    said,
    shared_port,
)

CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"


def let_seconds_pass(here: SharedPort) -> None:
    """Have all who listen look at their connections as they would in two seconds."""
    later = asyncio.get_running_loop().time() + 2
    for replica in (here.owner, *here.replicas):
        replica.listener.end_slow_connections(later)


# -- slow ---------------------------------------------------------------------------------------


@on_a_loop
async def test_requests_that_never_become_complete_end() -> None:
    async with shared_port() as here:
        await here.serve(FakeApp(A, "A"), receive_timeout_s=0.1, keep_alive_timeout_s=0.1)
        upload = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab"
        slow = [b"", b"GE", REQUEST[:-2], b"GET / HTTP/1.1\r\nx: y"]
        heard = await asyncio.gather(*(said(here, data) for data in [*slow, upload]))
        assert heard[0] == b""
        assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in heard[1:4])


@on_a_loop
async def test_an_upload_that_stops_is_no_request_any_more() -> None:
    async with shared_port() as here:
        app = Reads(A, "A")
        await here.serve(app, receive_timeout_s=0.1)
        upload = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab"
        assert (await said(here, upload)).startswith(b"HTTP/1.1 408 ")
        await app.cancelled.wait()


@on_a_loop
async def test_slow_answers_and_pauses_between_requests_are_fine() -> None:
    async with shared_port() as here:
        app = FakeApp(A, "A")
        await here.serve(app, receive_timeout_s=0.1)
        client = await connect(here)
        app.may_answer.clear()
        client[1].write(REQUEST)
        await app.began.wait()
        let_seconds_pass(here)
        app.may_answer.set()
        assert await answer(client) == "A"
        let_seconds_pass(here)
        assert await ask(client) == "A"
        client[1].close()


@on_a_loop
async def test_a_connection_that_stays_silent_after_an_answer_ends() -> None:
    async with shared_port() as here:
        await here.serve(FakeApp(A, "A"), keep_alive_timeout_s=1)
        client = await connect(here)
        assert await ask(client) == "A"
        let_seconds_pass(here)
        assert await client[0].read() == b""
        client[1].close()


class Late(FakeApp):
    """Asks for the body only when it may."""

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        self.began.set()
        await self.may_answer.wait()
        await send_value(send, (await receive())["body"])


@on_a_loop
async def test_a_client_may_wait_to_be_asked_for_the_body() -> None:
    async with shared_port() as here:
        app = Late(A, "A")
        app.may_answer.clear()
        await here.serve(app, receive_timeout_s=0.1)
        client = await connect(here)
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
        client[1].write(head)
        await app.began.wait()
        let_seconds_pass(here)
        app.may_answer.set()
        assert b"100 Continue" in await client[0].readuntil(b"\r\n\r\n")
        client[1].write(b"ab")
        assert await answer(client) == "ab"
        client[1].close()


@on_a_loop
async def test_a_client_that_is_not_read_from_is_not_slow() -> None:
    """Also if what was read last ends with the size of a piece of the body."""
    async with shared_port() as here:
        app = Late(A, "A")
        app.may_answer.clear()
        replica = await here.serve(app, receive_timeout_s=0.1)
        client = await connect(here)
        client[1].write(CHUNKED + b"%x\r\n%s\r\n2\r\n" % (70_000, 70_000 * b"x"))
        await app.began.wait()
        (connection,) = replica.listener._state.connections
        while not connection.flow.read_paused:
            await asyncio.sleep(0)
        client[1].write(b"ab\r\n0\r\n\r\n")
        let_seconds_pass(here)
        app.may_answer.set()
        assert (await answer(client))[:70_000] == 70_000 * "x"
        client[1].close()


@pytest.mark.parametrize("steps", range(4))
def test_a_wrong_body_is_refused_whether_or_not_it_was_asked_for(
    steps: int, caplog: pytest.LogCaptureFixture
) -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here:
            app = Reads(A, "A")
            replica = await here.serve(app)
            reader, writer = await connect(here)
            writer.write(CHUNKED.replace(b"host", b"expect: 100-continue\r\nhost"))
            there = replica.listener._state.connections
            while not [each for each in there if each.cycle]:
                await asyncio.sleep(0)
            for _ in range(steps):
                await asyncio.sleep(0)
            for connection in list(there):
                connection.data_received(b"none\r\n")
            heard = (await reader.read()).replace(b"HTTP/1.1 100 Continue\r\n\r\n", b"")
            assert heard.startswith(b"HTTP/1.1 400 ")
            writer.close()

    test()
    assert not caplog.records


class Flood(FakeApp):
    """Has more to say than a client reads, and notices when that is gone."""

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        try:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            while True:
                chunk = {"type": "http.response.body", "body": bytes(1_000_000)}
                await send({**chunk, "more_body": True})
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@on_a_loop
async def test_a_client_that_does_not_read_is_cut_off() -> None:
    async with shared_port() as here:
        app = Flood(A, "A")
        await here.serve(app, receive_timeout_s=0.1)
        with socket.create_connection(here.owner.url_parts[1:]) as client:
            client.sendall(REQUEST)
            await app.cancelled.wait()


# -- large --------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True])
def test_heads_without_end(later: bool) -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here:
            await here.serve(FakeApp(A, "A"))
            reader, writer = client = await connect(here)
            if later:
                assert await ask(client) == "A"
            writer.write(b"GET / HTTP/1.1\r\nhost: x\r\n")
            with contextlib.suppress(ConnectionError):
                for number in range(100_000):
                    writer.write(b"x-%d: %s\r\n" % (number, 1000 * b"y"))
                    await writer.drain()
                    if reader.at_eof() or reader._buffer:
                        break
            assert number < 5_000
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
            writer.close()

    test()


@on_a_loop
async def test_a_head_that_is_whole_and_too_large() -> None:
    async with shared_port() as here:
        await here.serve(FakeApp(A, "A"))
        client = await connect(here)
        assert await ask(client) == "A"
        fine = b"GET / HTTP/1.1\r\nhost: x\r\nx: %s\r\n\r\n"
        client[1].write(fine % (60_000 * b"y"))
        assert await answer(client) == "A"
        client[1].write(fine % (70_000 * b"y"))
        assert (await client[0].read()).startswith(b"HTTP/1.1 431 ")
        client[1].close()


@on_a_loop
async def test_a_large_body_is_no_large_head() -> None:
    async with shared_port() as here:
        await here.serve(Reads(A, "A"))
        client = await connect(here)
        upload = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 400000\r\n\r\n" + 400_000 * b"x"
        client[1].write(3 * upload + REQUEST)
        assert [await answer(client) for _ in range(4)] == 4 * ["A"]
        client[1].close()


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (CHUNKED + b"1\r\na\r\n0\r\n", b"x: %s\r\n" % (1000 * b"y")),
        (CHUNKED + b"0\r\nx: ", 1000 * b"y"),
        (b"", 500 * b"\r\n"),
    ],
    ids=["trailers", "one trailer", "empty lines"],
)
def test_what_is_no_body_does_not_fill_the_memory(begin: bytes, more: bytes) -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here:
            await here.serve(Reads(A, "A"))
            reader, writer = await connect(here)
            writer.write(begin)
            with contextlib.suppress(ConnectionError):
                for _ in range(5_000):
                    writer.write(more)
                    await writer.drain()
                    if reader.at_eof() or reader._buffer:
                        break
            assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
            writer.close()

    test()


class Headers(Reads):
    """Reads the body, and answers with the headers that are there then."""

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        self.name = "last"
        await super().answer(context, {}, receive, _of_nobody)
        await send_value(send, [name.decode() for name, _ in scope["headers"]])


async def _of_nobody(message: Any) -> None:
    pass


@on_a_loop
async def test_what_comes_behind_a_body_is_no_header() -> None:
    """A proxy checks, and takes out, headers only."""
    async with shared_port() as here:
        await here.serve(Headers(A, "A"))
        client = await connect(here)
        chunks = 2 * (b"%x\r\n%s\r\n" % (200_000, 200_000 * b"x"))
        client[1].write(2 * (CHUNKED + chunks + b"0\r\nx-user: root\r\n\r\n") + REQUEST)
        heard = [await answer(client) for _ in range(3)]
        assert not [names for names in heard if "x-user" in names]
        client[1].close()


@on_a_loop
async def test_a_handshake_by_another_method_is_refused() -> None:
    async with shared_port() as here:
        await here.serve(Accepts(A, "A"))
        handshake = (WEBSOCKET % b"x").replace(b"GET", b"POST")
        assert (await said(here, handshake)).startswith(b"HTTP/1.1 400 ")


class Full(FakeAdmission):
    """Has no room, so that websockets wait."""

    def __init__(self) -> None:
        self.waited = asyncio.Event()

    def has_room_now(self) -> bool:
        return False

    async def address_with_room(self) -> str | None:
        self.waited.set()
        await asyncio.Event().wait()
        return None


@on_a_loop
async def test_a_websocket_that_waits_cannot_fill_the_memory() -> None:
    async with shared_port() as here:
        app, full = FakeApp(A, "A"), Full()
        app.admission = full
        await here.serve(app)
        await here.add(A, "another")  # for which it would wait
        here.replicas[1].listener.stop_accepting()
        reader, writer = await connect(here)
        writer.write(WEBSOCKET % b"x")
        await full.waited.wait()
        writer.write(1_000_000 * b"x")
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()


class Accepts(FakeApp):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_handshake_may_come_in_pieces(cut: int) -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here:
            replica = await here.serve(Accepts(A, "A"))
            here.owner.set_routes({"/a": A})
            reader, writer = await connect(here)
            handshake = WEBSOCKET % b"a/b"
            writer.write(handshake[:cut])
            while not any(each.held for each in replica.listener._state.connections):
                await asyncio.sleep(0)
            writer.write(handshake[cut:])
            assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
            writer.close()

    test()


# -- beside asyncio -----------------------------------------------------------------------------


class Protocol:
    cycle = None

    def connection_lost(self, error: Exception | None) -> None:
        self.error = error


def test_a_transport_without_a_dict_may_end() -> None:
    """Loops written in C have such transports."""
    ended: list[int] = []
    server: Any = SimpleNamespace(closed=lambda: ended.append(1))
    connection = http_protocol_class(Protocol, server)()
    connection.transport = object()
    connection.connection_lost(None)
    assert ended == [1]
