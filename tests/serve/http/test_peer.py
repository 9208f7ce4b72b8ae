"""One port, several who answer."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import socket
from typing import Any

import pytest

from skate.serve._http import fd_passing, peer, port_owner, socket_folder
from skate.serve._http.port_owner import PortOwner
from skate.serve.config import HTTPOptions
from tests.serve.http.shared_port import (
    A,
    B,
    on_a_loop,
    shared_port,
)
from tests.support import PATIENCE


@on_a_loop
async def test_the_owner_answers_while_nobody_else_does() -> None:
    async with shared_port() as here, here.client() as client:
        health = await client.get("/-/healthz")
        assert (health.status_code, health.text) == (503, "Route table is not populated yet.")
        assert (await client.get("/x")).status_code == 404
        here.owner.set_routes({"/a": A})
        assert (await client.get("/-/healthz")).text == "success"
        assert (await client.get("/-/routes")).json() == {"/a": "a"}
        assert "/-/routes" in (await client.get("/x")).text


@on_a_loop
async def test_connections_go_to_whom_their_first_request_is_for() -> None:
    async with shared_port() as here:
        here.owner.set_routes({"/a": A, "/b": B})
        await here.add(A, "from A")
        await here.add(B, "from B")
        for _ in range(5):  # whoever accepts them
            async with here.client() as client:
                assert (await client.get("/a/x?y=/b")).text == "from A"
            async with here.client() as client:
                assert (await client.get("/b")).text == "from B"
        assert here.owner.listener.shared_socket is None


@pytest.mark.parametrize("lost", [1, 2, 3])
def test_what_cannot_be_told_at_once_is_told_later(
    lost: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For lack of descriptors, or because too many messages wait."""
    calls = itertools.count(1)

    def tell(address: str, *message: Any) -> bool:
        return next(calls) != lost and peer.tell(address, *message)

    monkeypatch.setattr(port_owner, "tell", tell)

    @on_a_loop
    async def test() -> None:
        async with shared_port() as here, here.client() as client:
            here.owner.set_routes({"/a": A})
            replica, _ = await here.add(A, "A")
            assert (await client.get("/a")).text == "A"
            here.owner.set_routes({"/a": A, "/b": A})
            while "/b" not in replica.app.routes.names():
                await asyncio.sleep(0.01)
        assert next(calls) > lost

    test()


def test_who_cannot_be_told_is_tried_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """However much there is to tell meanwhile."""
    told: list[bytes] = []

    def busy(address: str, *message: Any) -> bool:
        told.append(message[0])
        return False

    @on_a_loop
    async def test() -> None:
        async with shared_port() as here:
            replica, _ = await here.add(A, "A")
            monkeypatch.setattr(port_owner, "tell", busy)
            for number in range(50):
                here.owner.set_routes({f"/{number}": A})
            del told[:]
            while len(told) < 3:
                await asyncio.sleep(0.01)
            assert len(told) == 3, "each after a while, and not 50 at once"
            monkeypatch.setattr(port_owner, "tell", peer.tell)
            while "/49" not in replica.app.routes.names():
                await asyncio.sleep(0.01)

    test()


@on_a_loop
async def test_a_replica_that_leaves_finishes_and_gives_its_connections_away() -> None:
    async with shared_port() as here, here.client() as idle, here.client() as busy:
        here.owner.set_routes({"/": A})
        first, app = await here.add(A, "first")
        assert (await idle.get("/")).text == "first"
        app.may_answer.clear()
        app.began.clear()
        running = asyncio.ensure_future(busy.get("/"))
        await app.began.wait()
        await here.add(A, "second")
        leaving = asyncio.ensure_future(first.leave())
        answer = await idle.get("/", headers={"connection": "keep-alive"})
        assert answer.text == "second"  # on the connection that the first one had
        assert not leaving.done()
        app.may_answer.set()
        assert (await running).text == "first"
        await leaving
        async with here.client() as client:
            assert (await client.get("/")).text == "second"


@on_a_loop
async def test_when_the_last_one_is_gone_the_owner_answers_again() -> None:
    async with shared_port() as here:
        here.owner.set_routes({"/a": A})
        replica, _ = await here.add(A, "A")
        replica.close()  # as a process that was killed: without a farewell
        async with here.client() as client:
            assert (await client.get("/-/healthz")).text == "success"


@on_a_loop
async def test_what_the_owner_answered_goes_to_who_comes() -> None:
    async with shared_port() as here, here.client() as client:
        here.owner.set_routes({"/a": A})
        assert (await client.get("/-/healthz")).text == "success"
        assert here.owner.listener._state.connections
        await here.add(A, "A")
        while here.owner.listener._state.connections:
            await asyncio.sleep(0.001)
        assert (await client.get("/a")).text == "A"  # on the same connection


@on_a_loop
async def test_a_new_owner_gets_the_socket_back() -> None:
    async with shared_port() as here, here.client() as client:
        here.owner.set_routes({"/a": A})
        replica, _ = await here.add(A, "A")
        port = here.owner.url_parts[2]
        here.owner.close()
        assert (await client.get("/a")).text == "A"  # nobody needs the owner for that
        here.owner = PortOwner(HTTPOptions(port=port))
        await here.owner.open([replica.address])
        assert here.owner.url_parts[2] == port
        await replica.join(here.owner.address)
        here.owner.set_routes({"/b": A})
        async with here.client() as other:
            while (await other.get("/b")).text != "A":
                await asyncio.sleep(0.01)
        assert (await client.get("/a")).status_code == 404


@on_a_loop
async def test_a_lost_client_cancels_its_request() -> None:
    async with shared_port() as here:
        here.owner.set_routes({"/": A})
        _, app = await here.add(A, "A")
        app.may_answer.clear()
        with socket.create_connection(here.owner.url_parts[1:]) as client:
            client.sendall(b"GET / HTTP/1.1\r\nhost: x\r\n\r\n")
            await app.began.wait()
        await app.cancelled.wait()


@on_a_loop
async def test_request_ids_limits_and_connections_that_stay() -> None:
    async with shared_port() as here, here.client() as client:
        here.owner.set_routes({"/": A})
        _, app = await here.add(A, "A")
        given = await client.get("/", headers={"X-Request-ID": "mine"})
        assert given.headers["x-request-id"] == "mine"
        made = [(await client.get("/")).headers["x-request-id"] for _ in range(2)]
        assert len({*made, ""}) == 3
        app.may_answer.clear()
        late = await client.get("/", headers={"x-request-timeout-seconds": "0.01"})
        assert late.status_code == 408
        assert "timed out after 0.01s" in late.text
        assert app.cancelled.is_set()


@on_a_loop
async def test_a_port_that_is_taken() -> None:
    async with shared_port() as here:
        port = here.owner.url_parts[2]
        with pytest.raises(RuntimeError, match=f"127.0.0.1:{port}: another program listens there"):
            await PortOwner(HTTPOptions(port=port)).open()


@on_a_loop
async def test_messages_that_nobody_takes() -> None:
    with pytest.raises(FileNotFoundError):
        fd_passing.send("/nowhere/nobody", b"x")
    assert not await fd_passing.hand_over("/nowhere/nobody", b"x", [])
    with pytest.raises(OSError, match="choose a shorter TMPDIR"):
        fd_passing.send("/" + 120 * "x", b"x")


@pytest.mark.parametrize("turns", [0, 2])
def test_a_replica_that_joins_again_hears_of_routes_as_before(turns: int) -> None:
    """After the controller was killed, each is invited; more than once is no harm."""

    async def main() -> None:
        async with shared_port() as here:
            here.owner.set_routes({"/a": A})
            replica, _ = await here.add(A, "a")
            for _ in range(3):
                await replica.join(here.owner.address)
                for _ in range(turns):
                    await asyncio.sleep(0.01)
            here.owner.set_routes({"/a": A, "/x": A})
            async with here.client() as client:
                while (await client.get("/x")).text != "a":
                    await asyncio.sleep(0.01)

    asyncio.run(asyncio.wait_for(main(), PATIENCE))


def test_nobody_gives_descriptors_to_another_user_or_takes_theirs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(fd_passing, "is_own_process", lambda connection: False)
    taken: list[bytes] = []

    @on_a_loop
    async def test() -> None:
        mailbox = fd_passing.DescriptorMailbox(
            socket_folder.make_folder(), lambda message, _: taken.append(message)
        )
        try:
            with pytest.raises(PermissionError, match="another user"):
                fd_passing.send(mailbox.address, b"ours")
            with fd_passing._new_socket() as theirs:
                theirs.connect(mailbox.address)
                theirs.setblocking(False)
                with contextlib.suppress(ConnectionError):  # it hangs up
                    theirs.send(b"wtheirs")
                    assert await asyncio.get_running_loop().sock_recv(theirs, 1) == b""
        finally:
            mailbox.close()

    test()
    assert taken == []
