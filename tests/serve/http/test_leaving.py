"""A replica that is replaced loses no request, at whatever moment it is told to go."""

from __future__ import annotations

import asyncio
import os
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from skate.serve._http import passing
from skate.serve._http.answers import send_value
from skate.serve._http.station import ReplicaStation
from skate.serve.config import HTTPOptions
from tests.serve.http.certificates import Certificates
from tests.serve.http.test_stations import A, Host, Street, on_a_loop, street

REQUEST = b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n"
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(here: Street) -> Streams:
    return await asyncio.open_connection(*here.door.address[1:])


async def answer(client: Streams) -> str:
    """The body of the next response."""
    head = (await client[0].readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return (await client[0].readexactly(length)).decode()


async def ask(client: Streams) -> str:
    client[1].write(REQUEST)
    return await answer(client)


async def connected_to_first(here: Street) -> tuple[ReplicaStation, Host, Streams]:
    here.door.set_routes({"/": A})
    station, host = await here.add(A, "first")
    client = await connect(here)
    assert await ask(client) == "first"
    await here.add(A, "second")
    return station, host, client


async def gone(station: ReplicaStation) -> None:
    """Leave, within less than the time after which a replica is killed."""
    await asyncio.wait_for(station.leave(), 15)


@pytest.mark.parametrize("cut", [1, 10, len(REQUEST) - 1])
def test_of_a_request_only_a_part_has_come(cut: int) -> None:
    @on_a_loop
    async def test() -> None:
        async with street() as here:
            station, host, client = await connected_to_first(here)
            host.began.clear()
            client[1].write(REQUEST[:cut])
            await asyncio.sleep(0.02)  # until it has been read: nothing tells when
            leaving = asyncio.ensure_future(gone(station))
            await asyncio.sleep(0)
            client[1].write(REQUEST[cut:])
            assert await answer(client) in ("first", "second")
            assert await ask(client) == "second"
            await leaving
            client[1].close()

    test()


@on_a_loop
async def test_of_the_first_request_only_a_part_has_come() -> None:
    async with street() as here:
        here.door.set_routes({"/": A})
        station, _ = await here.add(A, "first")
        client = await connect(here)
        client[1].write(REQUEST[:10])
        while not station.server._state.connections:
            await asyncio.sleep(0)
        await here.add(A, "second")
        leaving = asyncio.ensure_future(gone(station))
        await leaving  # nobody has to wait for a request that has not begun
        client[1].write(REQUEST[10:])
        assert await answer(client) == "second"
        client[1].close()


@on_a_loop
async def test_a_connection_that_is_being_accepted() -> None:
    async with street() as here:
        here.door.set_routes({"/": A})
        station, _ = await here.add(A, "first")
        may_connect = asyncio.Event()
        connect_now = station.server._connect

        async def slowly(connection: socket.socket, read: bytes) -> None:
            await may_connect.wait()
            await connect_now(connection, read)

        station.server._connect = slowly  # type: ignore[method-assign]
        client = await connect(here)
        while not station.server._connecting:
            await asyncio.sleep(0)
        await here.add(A, "second")
        leaving = asyncio.ensure_future(gone(station))
        await asyncio.sleep(0)
        may_connect.set()
        await leaving
        assert await ask(client) == "second"
        client[1].close()


class Slow(Host):
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
    async with street() as here:
        here.door.set_routes({"/": A})
        host = Slow(A, "first")
        host.may_answer.clear()
        station = ReplicaStation(HTTPOptions(), here.door.place, host)
        here.stations.append(station)
        await station.join(here.door.place)
        client = await connect(here)
        client[1].write(REQUEST)
        await host.began.wait()
        await here.add(A, "second")
        leaving = asyncio.ensure_future(gone(station))
        await asyncio.sleep(0)
        host.may_answer.set()
        assert await answer(client) == "first"
        assert await ask(client) == "second"
        await leaving
        client[1].close()


@on_a_loop
async def test_requests_that_were_sent_without_waiting_for_answers() -> None:
    async with street() as here:
        station, host, client = await connected_to_first(here)
        host.may_answer.clear()
        host.began.clear()
        client[1].write(REQUEST * 3)
        await host.began.wait()
        leaving = asyncio.ensure_future(gone(station))
        await asyncio.sleep(0)
        host.may_answer.set()
        assert {await answer(client) for _ in range(3)} <= {"first", "second"}
        assert await ask(client) == "second"
        await leaving
        client[1].close()


class Large(Host):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        await send_value(send, "x" * 20_000_000)


@on_a_loop
async def test_a_response_that_the_client_has_not_read_yet() -> None:
    async with street() as here:
        here.door.set_routes({"/": A})
        station = ReplicaStation(HTTPOptions(), here.door.place, Large(A, "first"))
        here.stations.append(station)
        await station.join(here.door.place)
        client = await connect(here)
        client[1].write(REQUEST)
        await client[0].readuntil(b"\r\n\r\n")
        await here.add(A, "second")
        leaving = asyncio.ensure_future(gone(station))
        await asyncio.sleep(0.02)
        assert len(await client[0].readexactly(20_000_000)) == 20_000_000
        # By whoever has the connection by then; it is answered in any case.
        assert await ask(client) in ("second", "x" * 20_000_000)
        await leaving
        client[1].close()


@on_a_loop
async def test_a_successor_that_dies_before_it_takes_the_connection() -> None:
    async with street() as here:
        station, _, client = await connected_to_first(here)
        taker = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        place = f"{here.door.folder}/dead"
        with taker:
            taker.bind(place)
            taker.listen()
            taker.setblocking(False)
            here.door._loop.add_reader(taker.fileno(), lambda: taker.accept()[0].close())
            later = station._successors
            station._successors = lambda: [place, *later()]  # type: ignore[method-assign]
            await gone(station)
            here.door._loop.remove_reader(taker.fileno())
        os.unlink(place)
        assert await ask(client) == "second"
        client[1].close()


@on_a_loop
async def test_with_nobody_to_take_it_a_client_is_told_of_the_end() -> None:
    async with street() as here:
        here.door.set_routes({"/": A})
        station, _ = await here.add(A, "first")
        client = await connect(here)
        assert await ask(client) == "first"
        station._successors = list  # type: ignore[method-assign]
        leaving = asyncio.ensure_future(gone(station))
        await asyncio.sleep(0.02)
        client[1].write(REQUEST)
        assert b"connection: close" in await client[0].readuntil(b"\r\n\r\n")
        await leaving
        client[1].close()


@on_a_loop
async def test_messages_may_be_large() -> None:
    async with street() as here:
        targets = {f"/{'x' * 100}{number}": A for number in range(2000)}
        here.door.set_routes(targets)
        station, _ = await here.add(A, "A")
        while len(station.front.routes.names()) != len(targets):
            await asyncio.sleep(0.01)
        client = await connect(here)
        body = 300_000 * b"x"
        head = b"POST /%s7 HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n"
        client[1].write(head % (100 * b"x", len(body)) + body)
        assert await answer(client) == "A"
        client[1].close()


@on_a_loop
async def test_a_sender_may_be_slow() -> None:
    async with street() as here:
        station, _ = await here.add(A, "A")
        taken: list[bytes] = []
        station.mailbox._on_message = lambda message, _: taken.append(message)
        with passing._new_socket() as sender:
            sender.connect(station.place)
            while not station.mailbox._coming:
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
        async with street(**tls) as here:
            here.door.set_routes({"/": A})
            host = Host(A, "first")
            station = ReplicaStation(HTTPOptions(**tls), here.door.place, host)
            here.stations.append(station)
            await station.join(here.door.place)
            async with httpx.AsyncClient(base_url=here.url, verify=context) as client:
                assert (await client.get("/")).text == "first"
                host.may_answer.clear()
                host.began.clear()
                running = asyncio.ensure_future(client.get("/"))
                await host.began.wait()
                leaving = asyncio.ensure_future(gone(station))
                await asyncio.sleep(0)
                host.may_answer.set()
                assert (await running).headers["connection"] == "close"
                await leaving

    test()
