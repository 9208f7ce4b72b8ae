"""A shared port on one event loop, with real sockets: for tests of those who share it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import httpx

from skate.serve._http.admission import Admission
from skate.serve._http.answers import send_value
from skate.serve._http.peer import ReplicaPeer
from skate.serve._http.port_owner import PortOwner
from skate.serve._http.replica_app import ReplicaApp
from skate.serve._identity import DeploymentID
from skate.serve.config import HTTPOptions
from tests.support import PATIENCE

A, B = DeploymentID("A", "a"), DeploymentID("B", "b")
REQUEST = b"GET /x HTTP/1.1\r\nhost: x\r\n\r\n"
WEBSOCKET = (
    b"GET /%s HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
)
Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def connect(here: SharedPort) -> Streams:
    return await asyncio.open_connection(*here.owner.url_parts[1:])


async def answer(client: Streams) -> str:
    """The body of the next response."""
    head = (await client[0].readuntil(b"\r\n\r\n")).decode().lower()
    length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
    return (await client[0].readexactly(length)).decode()


async def ask(client: Streams) -> str:
    client[1].write(REQUEST)
    return await answer(client)


async def said(here: SharedPort, data: bytes) -> bytes:
    """All that a client hears that sends these bytes, until it is cut off."""
    reader, writer = await connect(here)
    writer.write(data)
    heard = await reader.read()
    writer.close()
    return heard


class FakeAdmission(Admission):
    """Has room for everybody."""

    def __init__(self) -> None:
        pass

    def prefers_another(self, model_id: str) -> bool:
        return False

    def takes(self, kind: str) -> bool:
        return True

    def has_room_now(self) -> bool:
        return True

    async def finds_room(self, kind: str) -> bool:
        return True

    async def address_with_room(self) -> str | None:
        return None


class FakeApp(ReplicaApp):
    """Stands for the code of a replica; answers with its name, once it may."""

    def __init__(self, id: DeploymentID, name: str) -> None:
        self.deployment_id = id
        self.admission = FakeAdmission()
        self.name = name
        self.began = asyncio.Event()
        self.may_answer = asyncio.Event()
        self.may_answer.set()
        self.cancelled = asyncio.Event()

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        self.began.set()
        try:
            await self.may_answer.wait()
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        await send_value(send, self.name)


class Reads(FakeApp):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        try:
            while (await receive()).get("more_body"):
                pass
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        await super().answer(context, scope, receive, send)


class SharedPort:
    """The owner of a port, and the replicas that share it."""

    def __init__(self, owner: PortOwner) -> None:
        self.owner = owner
        self.replicas: list[ReplicaPeer] = []
        self.url = "{}://{}:{}".format(*owner.url_parts)

    async def add(self, id: DeploymentID, name: str) -> tuple[ReplicaPeer, FakeApp]:
        app = FakeApp(id, name)
        return await self.join(app), app

    async def join(self, app: FakeApp, **options: Any) -> ReplicaPeer:
        replica = ReplicaPeer(HTTPOptions(**options), self.owner.address, app)
        self.replicas.append(replica)
        await replica.join(self.owner.address)
        return replica

    async def serve(self, app: FakeApp, **options: Any) -> ReplicaPeer:
        """Have one replica answer everything."""
        self.owner.set_routes({"/": app.deployment_id})
        return await self.join(app, **options)

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=PATIENCE)


@contextlib.asynccontextmanager
async def shared_port(**options: Any) -> AsyncIterator[SharedPort]:
    owner = PortOwner(HTTPOptions(port=0, **options))
    await owner.open()
    here = SharedPort(owner)
    try:
        yield here
    finally:
        for replica in here.replicas:
            replica.close()
        here.owner.close()
        await asyncio.sleep(0)  # connections end on the loop


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    def run() -> None:
        asyncio.run(asyncio.wait_for(test(), PATIENCE))

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run
