"""Bodies of requests that another process answers."""

from __future__ import annotations

import asyncio
import http.client
import json
import socket
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from starlette.requests import ClientDisconnect, Request

import skate
from skate import serve
from skate.serve._http.uploads import ForwardedBody, offered, read_upload
from skate.serve.exceptions import SkateServeError
from tests.serve.http.shared_port import on_a_loop
from tests.support import PATIENCE

pytestmark = pytest.mark.leaves("one instance serves all tests of this module")

_MEGABYTES = 320
_MOST_GROWTH_KB = 64 * 1024


def _peak_kb() -> int:
    """The most memory that this process has had."""
    with open("/proc/self/status") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))


@serve.deployment
class Front:
    """Has the connection."""

    def __call__(self) -> int:
        return _peak_kb()


@serve.deployment
class Reader:
    """Answers what comes on the other's connection."""

    def __init__(self) -> None:
        self.began = asyncio.Event()
        self.cut_off = asyncio.Event()

    async def __call__(self, request: Request) -> Any:
        if request.query_params.get("echo"):
            return request.stream()
        before, size = _peak_kb(), 0
        try:
            async for piece in request.stream():
                size += len(piece)
                self.began.set()
        except (ClientDisconnect, asyncio.CancelledError):
            self.cut_off.set()
            raise
        return {"size": size, "growth": _peak_kb() - before}

    async def until_began(self) -> None:
        await self.began.wait()

    async def until_cut_off(self) -> None:
        await self.cut_off.wait()


@pytest.fixture(scope="module")
def instance() -> Iterator[str]:
    """Both deployments, behind one port; its address."""
    skate.init(num_cpus=8)
    serve.start(http_options={"port": 0})
    serve.run(Front.bind(), name="front", route_prefix="/front")
    serve.run(Reader.bind(), name="reader", route_prefix="/reader")
    yield serve.http_address().removeprefix("http://")
    serve.shutdown()
    skate.shutdown()


@pytest.fixture
def connection(instance: str) -> Iterator[http.client.HTTPConnection]:
    """A connection that the replica of `Front` has, and keeps."""
    made = http.client.HTTPConnection(instance, timeout=PATIENCE)
    _asked(made)
    yield made
    made.close()


def _asked(connection: http.client.HTTPConnection) -> bytes:
    connection.request("GET", "/front")
    return connection.getresponse().read()


def _sock(connection: http.client.HTTPConnection) -> socket.socket:
    assert connection.sock is not None
    return connection.sock


def test_a_large_upload_is_never_kept(connection: http.client.HTTPConnection) -> None:
    before = int(_asked(connection))
    piece = bytes(2**20)
    connection.putrequest("POST", "/reader")
    connection.putheader("content-length", str(_MEGABYTES * 2**20))
    connection.endheaders()
    for _ in range(_MEGABYTES):
        _sock(connection).sendall(piece)
    found = json.loads(connection.getresponse().read())
    assert found["size"] == _MEGABYTES * 2**20
    assert found["growth"] < _MOST_GROWTH_KB
    assert int(_asked(connection)) - before < _MOST_GROWTH_KB


def test_pieces_are_seen_as_they_come(connection: http.client.HTTPConnection) -> None:
    connection.putrequest("POST", "/reader?echo=1")
    connection.putheader("transfer-encoding", "chunked")
    connection.endheaders()
    connection.send(b"3\r\none\r\n")
    answer = connection.getresponse()
    assert answer.read(3) == b"one"
    connection.send(b"3\r\ntwo\r\n")
    assert answer.read(3) == b"two"
    connection.send(b"0\r\n\r\n")
    assert answer.read() == b""
    assert int(_asked(connection)) > 0


def test_a_client_that_leaves_ends_the_request(connection: http.client.HTTPConnection) -> None:
    reader = serve.get_app_handle("reader")
    connection.putrequest("POST", "/reader")
    connection.putheader("content-length", "1000000")
    connection.endheaders()
    connection.send(bytes(300_000))
    reader.until_began.remote().result(PATIENCE)
    connection.close()
    reader.until_cut_off.remote().result(PATIENCE)


# -- one process asks, the other one has the connection -----------------------------------------


def test_what_a_lost_replica_has_read_is_not_read_again() -> None:
    @on_a_loop
    async def test() -> None:
        pieces = _pieces(b"b", b"c")
        with offered("somebody", pieces.__anext__) as reference:
            assert (await read_upload(reference.key, 1))["body"] == b"b"
            with pytest.raises(SkateServeError, match="send the request again"):
                await read_upload(reference.key, 1)
            assert (await read_upload(reference.key, 2))["body"] == b"c"
        assert await read_upload(reference.key, 3) == {"type": "http.disconnect"}

    test()


def test_who_still_asks_when_it_is_over_gets_an_answer() -> None:
    @on_a_loop
    async def test() -> None:
        never = asyncio.Event()

        async def receive() -> Any:
            await never.wait()

        with offered("somebody", receive) as reference:
            asking = asyncio.ensure_future(read_upload(reference.key, 1))
            await asyncio.sleep(0)
        assert await asking == {"type": "http.disconnect"}

    test()


def test_a_piece_is_for_the_next_one_who_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    @on_a_loop
    async def test() -> None:
        may_come = asyncio.Event()

        async def read(self: ForwardedBody, position: int) -> Any:
            await may_come.wait()
            return {"type": "http.request", "body": b"b", "more_body": False}

        monkeypatch.setattr(ForwardedBody, "_read", read)
        with offered("somebody", _pieces().__anext__) as reference:
            body = ForwardedBody(b"a", reference)
            assert (await body.receive())["body"] == b"a"
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(body.receive(), 0)
            asking = asyncio.ensure_future(body.receive())
            await asyncio.sleep(0)
            may_come.set()
            assert (await asking)["body"] == b"b"

    test()


async def _pieces(*bodies: bytes) -> AsyncIterator[Any]:
    for body in bodies:
        yield {"type": "http.request", "body": body, "more_body": True}
