"""As many connections as a process can have, and no more."""

from __future__ import annotations

import asyncio
import errno
import socket
from typing import Any

from tests.serve.http.shared_port import (
    REQUEST,
    A,
    FakeApp,
    answer,
    ask,
    connect,
    on_a_loop,
    shared_port,
)


@on_a_loop
async def test_silent_connections_make_room() -> None:
    async with shared_port() as here:
        replica = await here.serve(FakeApp(A, "A"))
        replica.listener._max_connections = 16
        busy = await connect(here)
        assert await ask(busy) == "A"
        silent = [await connect(here) for _ in range(100)]
        for _ in range(3):
            client = await connect(here)
            assert await ask(client) == "A"
            client[1].close()
        assert len(replica.listener._state.connections) <= 16
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
    async with shared_port() as here:
        replica = await here.serve(FakeApp(A, "A"))
        assert here.owner._socket is not None
        empty = NoDescriptors(fileno=here.owner._socket.dup().detach())
        replica.listener.accept_from(empty)
        client = await connect(here)
        client[1].write(REQUEST)
        await asyncio.sleep(0.5)
        assert 1 <= empty.tries < 10
        replica.listener.accept_from(here.owner._socket.dup())
        assert await answer(client) == "A"
        client[1].close()


@on_a_loop
async def test_connections_one_after_the_other_go_to_different_processes() -> None:
    async with shared_port() as here:
        for name in ("first", "second"):
            await here.serve(FakeApp(A, name))
        heard = []
        for _ in range(10):
            client = await connect(here)
            heard.append(await ask(client))
            client[1].close()
    assert set(heard) == {"first", "second"}
