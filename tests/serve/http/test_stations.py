"""One port, several who answer: on one event loop, with real sockets."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx
import pytest
from starlette.websockets import WebSocketDisconnect

from skate.serve._http import passing
from skate.serve._http.answers import send_value
from skate.serve._http.door import Door
from skate.serve._http.front import Exchange
from skate.serve._http.routes import Route
from skate.serve._http.station import ReplicaStation
from skate.serve._identity import DeploymentID
from skate.serve.config import HTTPOptions
from tests.support import PATIENCE

A, B = DeploymentID("A", "a"), DeploymentID("B", "b")


class Host:
    """Stands for a replica; answers with its name, once it may."""

    def __init__(self, id: DeploymentID, name: str) -> None:
        self.deployment_id = id
        self.name = name
        self.began = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.cancelled = asyncio.Event()

    def takes(self, kind: str) -> bool:
        return True

    def has_better(self, model_id: str) -> bool:
        return False

    def has_room_now(self) -> bool:
        return True

    async def place_with_room(self) -> str | None:
        return None

    async def finds_room(self, kind: str) -> bool:
        return True

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        self.began.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        await send_value(send, self.name)


class Street:
    """A door, and who listens behind it."""

    def __init__(self, door: Door) -> None:
        self.door = door
        self.stations: list[ReplicaStation] = []
        self.url = "{}://{}:{}".format(*door.address)

    async def add(self, id: DeploymentID, name: str) -> tuple[ReplicaStation, Host]:
        host = Host(id, name)
        station = ReplicaStation(HTTPOptions(), self.door.place, host)
        self.stations.append(station)
        await station.join(self.door.place)
        return station, host

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=PATIENCE)


@contextlib.asynccontextmanager
async def street(**options: Any) -> AsyncIterator[Street]:
    door = Door(HTTPOptions(port=0, **options))
    await door.open()
    here = Street(door)
    try:
        yield here
    finally:
        for station in here.stations:
            station.close()
        here.door.close()
        await asyncio.sleep(0)  # connections end on the loop


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), PATIENCE))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


@on_a_loop
async def test_the_door_answers_while_nobody_else_does() -> None:
    async with street() as here, here.client() as client:
        health = await client.get("/-/healthz")
        assert (health.status_code, health.text) == (503, "There are no routes yet.")
        assert (await client.get("/x")).status_code == 404
        here.door.set_routes({"/a": A})
        assert (await client.get("/-/healthz")).text == "success"
        assert (await client.get("/-/routes")).json() == {"/a": "a"}
        assert "/-/routes" in (await client.get("/x")).text


@on_a_loop
async def test_connections_go_to_whom_their_first_request_is_for() -> None:
    async with street() as here:
        here.door.set_routes({"/a": A, "/b": B})
        await here.add(A, "from A")
        await here.add(B, "from B")
        for _ in range(5):  # whoever accepts them
            async with here.client() as client:
                assert (await client.get("/a/x?y=/b")).text == "from A"
            async with here.client() as client:
                assert (await client.get("/b")).text == "from B"
        assert here.door.server.listener is None


@on_a_loop
async def test_a_replica_that_leaves_finishes_and_gives_its_connections_away() -> None:
    async with street() as here, here.client() as idle, here.client() as busy:
        here.door.set_routes({"/": A})
        first, host = await here.add(A, "first")
        assert (await idle.get("/")).text == "first"
        host.may_answer.clear()
        host.began.clear()
        running = asyncio.ensure_future(busy.get("/"))
        await host.began.wait()
        await here.add(A, "second")
        leaving = asyncio.ensure_future(first.leave())
        answer = await idle.get("/", headers={"connection": "keep-alive"})
        assert answer.text == "second"  # on the connection that the first one had
        assert not leaving.done()
        host.may_answer.set()
        assert (await running).text == "first"
        await leaving
        async with here.client() as client:
            assert (await client.get("/")).text == "second"


@on_a_loop
async def test_when_the_last_one_is_gone_the_door_answers_again() -> None:
    async with street() as here:
        here.door.set_routes({"/a": A})
        station, _ = await here.add(A, "A")
        station.close()  # as a process that was killed: without a farewell
        async with here.client() as client:
            assert (await client.get("/-/healthz")).text == "success"


@on_a_loop
async def test_what_the_door_answered_goes_to_who_comes() -> None:
    async with street() as here, here.client() as client:
        here.door.set_routes({"/a": A})
        assert (await client.get("/-/healthz")).text == "success"
        assert here.door.server._state.connections
        await here.add(A, "A")
        while here.door.server._state.connections:
            await asyncio.sleep(0.001)
        assert (await client.get("/a")).text == "A"  # on the same connection


@on_a_loop
async def test_a_new_door_gets_the_socket_back() -> None:
    async with street() as here, here.client() as client:
        here.door.set_routes({"/a": A})
        station, _ = await here.add(A, "A")
        port = here.door.address[2]
        here.door.close()
        assert (await client.get("/a")).text == "A"  # nobody needs the door for that
        here.door = Door(HTTPOptions(port=port))
        await here.door.open([station.place])
        assert here.door.address[2] == port
        await station.join(here.door.place)
        here.door.set_routes({"/b": A})
        async with here.client() as other:
            while (await other.get("/b")).text != "A":
                await asyncio.sleep(0.01)
        assert (await client.get("/a")).status_code == 404


@on_a_loop
async def test_a_lost_client_cancels_its_request() -> None:
    async with street() as here:
        here.door.set_routes({"/": A})
        _, host = await here.add(A, "A")
        host.may_answer.clear()
        with socket.create_connection(here.door.address[1:]) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await host.began.wait()
        await host.cancelled.wait()


@on_a_loop
async def test_request_ids_limits_and_connections_that_stay() -> None:
    async with street() as here, here.client() as client:
        here.door.set_routes({"/": A})
        _, host = await here.add(A, "A")
        given = await client.get("/", headers={"X-Request-ID": "mine"})
        assert given.headers["x-request-id"] == "mine"
        made = [(await client.get("/")).headers["x-request-id"] for _ in range(2)]
        assert len({*made, ""}) == 3
        host.may_answer.clear()
        late = await client.get("/", headers={"x-request-timeout-seconds": "0.01"})
        assert late.status_code == 408
        assert "within 0.01 s: timed out" in late.text
        assert host.cancelled.is_set()


@on_a_loop
async def test_a_port_that_is_taken() -> None:
    async with street() as here:
        port = here.door.address[2]
        with pytest.raises(RuntimeError, match=f"127.0.0.1:{port}: another program listens there"):
            await Door(HTTPOptions(port=port)).open()


@on_a_loop
async def test_messages_that_nobody_takes() -> None:
    with pytest.raises(FileNotFoundError):
        passing.send("/nowhere/nobody", b"x")
    assert not await passing.hand_over("/nowhere/nobody", b"x", [])
    with pytest.raises(OSError, match="choose a shorter TMPDIR"):
        passing.send("/" + 120 * "x", b"x")


def test_a_websocket_whose_client_left_is_no_error(caplog: pytest.LogCaptureFixture) -> None:
    async def nobody(message: Any) -> None:
        raise AssertionError("nobody is there")

    async def answer() -> None:
        raise WebSocketDisconnect(1001)

    async def exchange() -> None:
        scope = {"type": "websocket", "headers": []}
        await Exchange(scope, nobody, Route("/", A), HTTPOptions()).run(answer())

    asyncio.run(exchange())
    assert [record for record in caplog.records if record.name == "skate.serve"] == []
