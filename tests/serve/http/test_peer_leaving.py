"""A replica that is replaced loses no request, at whatever moment it is told to go."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from skate.serve._http import fd_passing
from skate.serve._http.answers import send_value
from skate.serve._http.peer import ReplicaPeer
from tests.serve.http.certificates import Certificates
from tests.serve.http.shared_port import (
    REQUEST,
    A,
    FakeApp,
    SharedPort,
    Streams,
    answer,
    ask,
    connect,
    on_a_loop,
    shared_port,
)


async def connected_to_first(here: SharedPort) -> tuple[ReplicaPeer, FakeApp, Streams]:
    here.owner.set_routes({"/": A})
    replica, app = await here.add(A, "first")
    client = await connect(here)
    assert await ask(client) == "first"
    await here.add(A, "second")
    return replica, app, client


async def gone(replica: ReplicaPeer) -> None:
    """Leave, within less than the time after which a replica is killed."""
    await asyncio.wait_for(replica.leave(), 15)


@pytest.mark.parametrize("cut", [1, 10, len(REQUEST) - 1])
def test_of_a_request_only_a_part_has_come(cut: int) -> None:
    @on_a_loop
    async def test() -> None:
        async with shared_port() as here:
            replica, app, client = await connected_to_first(here)
            app.began.clear()
            client[1].write(REQUEST[:cut])
            await asyncio.sleep(0.02)  # until it has been read: nothing tells when
            leaving = asyncio.ensure_future(gone(replica))
            await asyncio.sleep(0)
            client[1].write(REQUEST[cut:])
            assert await answer(client) in ("first", "second")
            assert await ask(client) == "second"
            await leaving
            client[1].close()

    test()


@on_a_loop
async def test_of_the_first_request_only_a_part_has_come() -> None:
    async with shared_port() as here:
        here.owner.set_routes({"/": A})
        replica, _ = await here.add(A, "first")
        client = await connect(here)
        client[1].write(REQUEST[:10])
        while not replica.listener._state.connections:
            await asyncio.sleep(0)
        await here.add(A, "second")
        leaving = asyncio.ensure_future(gone(replica))
        await leaving  # nobody has to wait for a request that has not begun
        client[1].write(REQUEST[10:])
        assert await answer(client) == "second"
        client[1].close()


@on_a_loop
async def test_a_connection_that_is_being_accepted() -> None:
    async with shared_port() as here:
        here.owner.set_routes({"/": A})
        replica, _ = await here.add(A, "first")
        may_connect = asyncio.Event()
        connect_now = replica.listener._connect

        async def slowly(connection: socket.socket, read: bytes) -> None:
            await may_connect.wait()
            await connect_now(connection, read)

        replica.listener._connect = slowly  # type: ignore[method-assign]
        client = await connect(here)
        while not replica.listener._connecting:
            await asyncio.sleep(0)
        await here.add(A, "second")
        leaving = asyncio.ensure_future(gone(replica))
        await asyncio.sleep(0)
        may_connect.set()
        await leaving
        assert await ask(client) == "second"
        client[1].close()


class Slow(FakeApp):
    """Sends a response in two parts."""

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        headers = [(b"content-length", b"5")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"fi", "more_body": True})
        self.began.set()
        await self.may_answer.wait()
        await send({"type": "http.response.body", "body": b"rst"})


@on_a_loop
async def test_a_response_has_begun() -> None:
    async with shared_port() as here:
        here.owner.set_routes({"/": A})
        app = Slow(A, "first")
        app.may_answer.clear()
        replica = await here.join(app)
        client = await connect(here)
        client[1].write(REQUEST)
        await app.began.wait()
        await here.add(A, "second")
        leaving = asyncio.ensure_future(gone(replica))
        await asyncio.sleep(0)
        app.may_answer.set()
        assert await answer(client) == "first"
        assert await ask(client) == "second"
        await leaving
        client[1].close()


@on_a_loop
async def test_requests_that_were_sent_without_waiting_for_answers() -> None:
    async with shared_port() as here:
        replica, app, client = await connected_to_first(here)
        app.may_answer.clear()
        app.began.clear()
        client[1].write(REQUEST * 3)
        await app.began.wait()
        leaving = asyncio.ensure_future(gone(replica))
        await asyncio.sleep(0)
        app.may_answer.set()
        assert {await answer(client) for _ in range(3)} <= {"first", "second"}
        assert await ask(client) == "second"
        await leaving
        client[1].close()


class Large(FakeApp):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        await send_value(send, "x" * 20_000_000)


@on_a_loop
async def test_a_response_that_the_client_has_not_read_yet() -> None:
    async with shared_port() as here:
        here.owner.set_routes({"/": A})
        replica = await here.join(Large(A, "first"))
        client = await connect(here)
        client[1].write(REQUEST)
        await client[0].readuntil(b"\r\n\r\n")
        await here.add(A, "second")
        leaving = asyncio.ensure_future(gone(replica))
        await asyncio.sleep(0.02)
        assert len(await client[0].readexactly(20_000_000)) == 20_000_000
        # By whoever has the connection by then; it is answered in any case.
        assert await ask(client) in ("second", "x" * 20_000_000)
        await leaving
        client[1].close()


@on_a_loop
async def test_a_successor_that_dies_before_it_takes_the_connection() -> None:
    async with shared_port() as here:
        replica, _, client = await connected_to_first(here)
        taker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        address = f"{here.owner.folder}/dead"
        with taker:
            taker.bind(address)
            taker.listen()
            taker.setblocking(False)
            here.owner._loop.add_reader(taker.fileno(), lambda: taker.accept()[0].close())
            later = replica._successors
            replica._successors = lambda: [address, *later()]  # type: ignore[method-assign]
            await gone(replica)
            here.owner._loop.remove_reader(taker.fileno())
        os.unlink(address)
        assert await ask(client) == "second"
        client[1].close()


@on_a_loop
async def test_with_nobody_to_take_it_a_client_is_told_of_the_end() -> None:
    async with shared_port() as here:
        here.owner.set_routes({"/": A})
        replica, _ = await here.add(A, "first")
        client = await connect(here)
        assert await ask(client) == "first"
        replica._successors = list  # type: ignore[method-assign]
        leaving = asyncio.ensure_future(gone(replica))
        await asyncio.sleep(0.02)
        client[1].write(REQUEST)
        assert b"connection: close" in await client[0].readuntil(b"\r\n\r\n")
        await leaving
        client[1].close()


@on_a_loop
async def test_messages_may_be_large() -> None:
    async with shared_port() as here:
        targets = {f"/{'x' * 100}{number}": A for number in range(2000)}
        here.owner.set_routes(targets)
        replica, _ = await here.add(A, "A")
        while len(replica.app.routes.names()) != len(targets):
            await asyncio.sleep(0.01)
        client = await connect(here)
        body = 300_000 * b"x"
        head = b"POST /%s7 HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
        client[1].write(head % (100 * b"x", len(body)) + body)
        assert await answer(client) == "A"
        client[1].close()


@on_a_loop
async def test_a_sender_may_be_slow() -> None:
    async with shared_port() as here:
        replica, _ = await here.add(A, "A")
        taken: list[bytes] = []
        replica.mailbox._on_message = lambda message, _: taken.append(message)
        with fd_passing._new_socket() as sender:
            sender.connect(replica.address)
            while not replica.mailbox._coming:
                await asyncio.sleep(0)
            sender.send(b"wlate")
            while not taken:
                await asyncio.sleep(0)
        assert taken == [b"late"]


def test_what_cannot_move_is_told_of_its_end(tmp_path: Path) -> None:
    certificates = Certificates(tmp_path)
    tls: Any = {"ssl_keyfile": certificates.key, "ssl_certfile": certificates.cert}

    @on_a_loop
    async def test() -> None:
        context = certificates.context("none")
        async with shared_port(**tls) as here:
            here.owner.set_routes({"/": A})
            app = FakeApp(A, "first")
            replica = await here.join(app, **tls)
            async with httpx.AsyncClient(base_url=here.url, verify=context) as client:
                assert (await client.get("/")).text == "first"
                app.may_answer.clear()
                app.began.clear()
                running = asyncio.ensure_future(client.get("/"))
                await app.began.wait()
                leaving = asyncio.ensure_future(gone(replica))
                await asyncio.sleep(0)
                app.may_answer.set()
                assert (await running).headers["connection"] == "close"
                await leaving

    test()
