"""Clients that are slow, greedy or uninvited."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
from pathlib import Path
from typing import Any

import httpx
import pytest

from skate.serve._http import forwarding
from skate.serve._http.answers import send_value
from skate.serve._http.door import Door
from skate.serve._http.station import ReplicaStation
from skate.serve.config import HTTPOptions
from skate.serve.exceptions import DeploymentUnavailableError
from tests.serve.http.certificates import Certificates
from tests.serve.http.test_leaving import REQUEST, answer, ask, connect
from tests.serve.http.test_stations import A, B, Host, Street, on_a_loop, street
from tests.support import PATIENCE


async def one_replica(here: Street, host: Host, **options: Any) -> ReplicaStation:
    here.door.set_routes({"/": host.deployment_id})
    station = ReplicaStation(HTTPOptions(port=0, **options), here.door.place, host)
    here.stations.append(station)
    await station.join(here.door.place)
    return station


async def said(here: Street, data: bytes) -> bytes:
    """All that a client hears that sends these bytes, until it is cut off."""
    reader, writer = await connect(here)
    writer.write(data)
    heard = await reader.read()
    writer.close()
    return heard


def let_seconds_pass(here: Street) -> None:
    """Have all who listen look at their connections as they would in two seconds."""
    later = asyncio.get_running_loop().time() + 2
    for station in (here.door, *here.stations):
        station.server.end_slow_connections(later)


# -- slow ---------------------------------------------------------------------------------------


@on_a_loop
async def test_requests_that_never_become_complete_end() -> None:
    async with street() as here:
        await one_replica(here, Host(A, "A"), receive_timeout_s=0.1, keep_alive_timeout_s=0.1)
        upload = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab"
        slow = [b"", b"GE", REQUEST[:-2], b"GET / HTTP/1.1\r\nx: y"]
        heard = await asyncio.gather(*(said(here, data) for data in [*slow, upload]))
        assert heard[0] == b""
        assert all(answer.startswith(b"HTTP/1.1 408 ") for answer in heard[1:4])


class Reads(Host):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        try:
            while (await receive()).get("more_body"):
                pass
        except asyncio.CancelledError:
            self.cancelled.set()
            raise
        await super().answer(context, scope, receive, send)


@on_a_loop
async def test_an_upload_that_stops_is_no_request_any_more() -> None:
    async with street() as here:
        host = Reads(A, "A")
        await one_replica(here, host, receive_timeout_s=0.1)
        upload = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 5\r\n\r\nab"
        assert (await said(here, upload)).startswith(b"HTTP/1.1 408 ")
        await host.cancelled.wait()


@on_a_loop
async def test_slow_answers_and_pauses_between_requests_are_fine() -> None:
    async with street() as here:
        host = Host(A, "A")
        await one_replica(here, host, receive_timeout_s=0.1)
        client = await connect(here)
        host.may_answer.clear()
        client[1].write(REQUEST)
        await host.began.wait()
        let_seconds_pass(here)
        host.may_answer.set()
        assert await answer(client) == "A"
        let_seconds_pass(here)
        assert await ask(client) == "A"
        client[1].close()


class Late(Host):
    """Asks for the body only when it may."""

    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        self.began.set()
        await self.may_answer.wait()
        await send_value(send, (await receive())["body"])


@on_a_loop
async def test_a_client_may_wait_to_be_asked_for_the_body() -> None:
    async with street() as here:
        host = Late(A, "A")
        host.may_answer.clear()
        await one_replica(here, host, receive_timeout_s=0.1)
        client = await connect(here)
        head = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 2\r\nexpect: 100-continue\r\n\r\n"
        client[1].write(head)
        await host.began.wait()
        let_seconds_pass(here)
        host.may_answer.set()
        assert b"100 Continue" in await client[0].readuntil(b"\r\n\r\n")
        client[1].write(b"ab")
        assert await answer(client) == "ab"
        client[1].close()


class Flood(Host):
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
    async with street() as here:
        host = Flood(A, "A")
        await one_replica(here, host, receive_timeout_s=0.1)
        with socket.create_connection(here.door.address[1:]) as client:
            client.sendall(REQUEST)
            await host.cancelled.wait()


# -- many ---------------------------------------------------------------------------------------


@on_a_loop
async def test_silent_connections_make_room() -> None:
    async with street() as here:
        station = await one_replica(here, Host(A, "A"))
        station.server._most = 16
        busy = await connect(here)
        assert await ask(busy) == "A"
        silent = [await connect(here) for _ in range(100)]
        for _ in range(3):
            client = await connect(here)
            assert await ask(client) == "A"
            client[1].close()
        assert len(station.server._state.connections) <= 16
        for _, writer in [busy, *silent]:
            writer.close()


class NoDescriptors(socket.socket):
    """A listening socket of a process that has none left."""

    tries = 0

    def accept(self) -> Any:
        self.tries += 1
        raise OSError(errno.EMFILE, "Too many open files")


@on_a_loop
async def test_without_descriptors_a_process_does_not_spin() -> None:
    async with street() as here:
        station = await one_replica(here, Host(A, "A"))
        assert here.door._socket is not None
        empty = NoDescriptors(fileno=here.door._socket.dup().detach())
        station.server.accept_from(empty)
        client = await connect(here)
        client[1].write(REQUEST)
        await asyncio.sleep(0.5)
        assert 1 <= empty.tries < 10
        station.server.accept_from(here.door._socket.dup())
        assert await answer(client) == "A"
        client[1].close()


# -- large --------------------------------------------------------------------------------------


@pytest.mark.parametrize("later", [False, True])
def test_heads_without_end(later: bool) -> None:
    @on_a_loop
    async def test() -> None:
        async with street() as here:
            await one_replica(here, Host(A, "A"))
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
    async with street() as here:
        await one_replica(here, Host(A, "A"))
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
    async with street() as here:
        await one_replica(here, Reads(A, "A"))
        client = await connect(here)
        upload = b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 400000\r\n\r\n" + 400_000 * b"x"
        client[1].write(3 * upload + REQUEST)
        assert [await answer(client) for _ in range(4)] == 4 * ["A"]
        client[1].close()


class Full(Host):
    """A replica without room, where websockets wait."""

    def has_room_now(self) -> bool:
        return False

    async def place_with_room(self) -> str | None:
        self.began.set()
        await asyncio.Event().wait()
        return None


WEBSOCKET = (
    b"GET /%s HTTP/1.1\r\nhost: x\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
    b"sec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\nsec-websocket-version: 13\r\n\r\n"
)


@on_a_loop
async def test_a_websocket_that_waits_cannot_fill_the_memory() -> None:
    async with street() as here:
        host = Full(A, "A")
        await one_replica(here, host)
        await here.add(A, "another")  # for which it would wait
        here.stations[1].server.stop_accepting()
        reader, writer = await connect(here)
        writer.write(WEBSOCKET % b"x")
        await host.began.wait()
        writer.write(1_000_000 * b"x")
        assert (await reader.read()).startswith(b"HTTP/1.1 431 ")
        writer.close()


class Accepts(Host):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "websocket.accept"})


@pytest.mark.parametrize("cut", [1, 5, 30])
def test_a_handshake_may_come_in_pieces(cut: int) -> None:
    @on_a_loop
    async def test() -> None:
        async with street() as here:
            station = await one_replica(here, Accepts(A, "A"))
            here.door.set_routes({"/a": A})
            reader, writer = await connect(here)
            handshake = WEBSOCKET % b"a/b"
            writer.write(handshake[:cut])
            while not any(each.held for each in station.server._state.connections):
                await asyncio.sleep(0)
            writer.write(handshake[cut:])
            assert (await reader.readline()).startswith(b"HTTP/1.1 101 ")
            writer.close()

    test()


@pytest.mark.parametrize("announced", [True, False])
def test_uploads_for_another_process_have_a_limit(
    announced: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(forwarding, "_LARGEST_BODY_BYTES", 100_000)
    body = 200_000 * b"x"

    async def pieces() -> Any:
        for _ in range(20):
            yield body[:10_000]

    @on_a_loop
    async def test() -> None:
        async with street() as here, here.client() as client:
            await one_replica(here, Reads(A, "A"))
            here.door.set_routes({"/a": A, "/b": B})
            assert (await client.get("/a")).text == "A"
            answer = await client.post("/b", content=body if announced else pieces())
            assert answer.status_code == 413
            assert "cannot go to another replica" in answer.json()["detail"]
            assert (await client.post("/a", content=body)).text == "A"

    test()


# -- what is said -------------------------------------------------------------------------------


class Unavailable(Host):
    async def answer(self, context: Any, scope: Any, receive: Any, send: Any) -> None:
        raise DeploymentUnavailableError(A, "Traceback ... password=hunter2")


@pytest.mark.parametrize("show_errors", [False, True])
def test_what_failed_to_start_is_nobodys_business(show_errors: bool) -> None:
    @on_a_loop
    async def test() -> None:
        async with street() as here, here.client() as client:
            await one_replica(here, Unavailable(A, "A"), show_errors=show_errors)
            answer = await client.get("/")
            assert answer.status_code == 503
            assert ("hunter2" in answer.text) == show_errors

    test()


@on_a_loop
async def test_a_client_cannot_ask_for_more_time_than_there_is() -> None:
    async with street() as here, here.client() as client:
        host = Host(A, "A")
        await one_replica(here, host, request_timeout_s=0.05)
        host.may_answer.clear()
        for asked in ("0", "-1", "1e9", "inf", "nan", "x"):
            late = await client.get("/", headers={"x-request-timeout-seconds": asked})
            assert (asked, late.status_code) == (asked, 408)
            assert "within 0.05 s" in late.text
        sooner = await client.get("/", headers={"x-request-timeout-seconds": "0.01"})
        assert "within 0.01 s" in sooner.text


# -- who may ask --------------------------------------------------------------------------------


@pytest.fixture(params=["given", "environment", "file"])
def token_options(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> dict[str, Any]:
    """Options by which the token is "s3cret"."""
    if request.param == "environment":
        monkeypatch.setenv("SKATE_SERVE_AUTH_TOKEN", "s3cret")
        return {}
    if request.param == "file":
        (tmp_path / "token").write_text("s3cret\n")
        return {"auth_token_file": str(tmp_path / "token")}
    return {"auth_token": "s3cret"}


def test_only_who_has_the_token_is_answered(token_options: dict[str, Any]) -> None:
    @on_a_loop
    async def test() -> None:
        async with street() as here, here.client() as client:
            host = Host(A, "A")
            await one_replica(here, host, **token_options)
            for wrong in (
                "",
                "s3cret",
                "Bearer",
                "Bearer s3cre",
                "Bearer s3cret1",
                "Basic s3cret",
            ):
                headers = {"authorization": wrong} if wrong else {}
                for path in ("/", "/-/routes"):
                    refused = await client.get(path, headers=headers)
                    assert refused.status_code == 401
                    assert refused.headers["www-authenticate"] == "Bearer"
            twice = [("authorization", "Bearer s3cret"), ("authorization", "Bearer x")]
            assert (await client.get("/", headers=twice)).status_code == 401
            assert not host.began.is_set()
            assert (await client.get("/-/healthz")).text == "success"
            right = await client.get("/", headers={"authorization": "bearer s3cret"})
            assert right.text == "A"
            heard = await said(here, WEBSOCKET % b"x")
            assert heard.startswith(b"HTTP/1.1 401 ")

    test()


def test_tokens_stay_secret_and_are_checked(tmp_path: Path) -> None:
    assert "s3cret" not in repr(HTTPOptions(auth_token="s3cret"))
    (tmp_path / "empty").write_text("\n")
    for options in ({"auth_token": ""}, {"auth_token_file": str(tmp_path / "empty")}):
        with pytest.raises(ValueError, match="takes a token of ASCII letters"):
            HTTPOptions(**options)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="auth_token takes a token") as refused:
        HTTPOptions(auth_token="two words")
    assert "two words" not in str(refused.value)
    with pytest.raises(FileNotFoundError):
        HTTPOptions(auth_token_file=str(tmp_path / "missing"))


@pytest.fixture
def certificates(tmp_path: Path) -> Certificates:
    return Certificates(tmp_path)


def test_clients_without_a_known_certificate_are_refused(certificates: Certificates) -> None:
    tls = {"ssl_keyfile": certificates.key, "ssl_certfile": certificates.cert}

    async def get(here: Street, client: str) -> httpx.Response:
        context = certificates.context(client)
        async with httpx.AsyncClient(verify=context, timeout=PATIENCE) as asking:
            return await asking.get(here.url + "/-/healthz")

    async def asked(**options: Any) -> list[int | str]:
        async with street(**tls, **options) as here:
            here.door.set_routes({"/": A})
            heard: list[int | str] = []
            for client in ("known", "unknown", "none"):
                try:
                    heard.append((await get(here, client)).status_code)
                except httpx.TransportError:
                    heard.append("refused")
            return heard

    assert asyncio.run(asked()) == [200, 200, 200]
    found = asyncio.run(asked(ssl_ca_certs=certificates.authority))
    assert found == [200, "refused", "refused"]
    with pytest.raises(ValueError, match="ssl_ca_certs takes a file beside ssl_certfile"):
        Door(HTTPOptions(ssl_ca_certs=certificates.authority))
