"""Questions to a running instance from other processes of the same user: `skate serve status`.

The controller answers on a Unix socket in the abstract namespace whose name has the user and the
port, one question per connection. Both sides make sure that the other is the same user.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import struct
from typing import Any

from skate.serve._http.passing import is_ours

_LENGTH = struct.Struct("!Q")


class Desk:
    """Answers, in the controller's process, by calling methods of the controller."""

    OWN = ("config", "remember")
    METHODS = ("deploy", "delete", "names", "shut_down", "status", "wait_until_settled")

    def __init__(self, controller: Any, port: int) -> None:
        self._controller = controller
        self._port = port
        self._server: asyncio.AbstractServer | None = None
        self._config: dict[str, Any] = {}

    async def open(self) -> None:
        try:
            self._server = await asyncio.start_unix_server(self._serve, _place(self._port))
        except OSError:
            pass  # of a former controller that is about to end; this one answers all but this

    def close(self) -> None:
        if self._server is not None:
            self._server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if not is_ours(writer.get_extra_info("socket")):
                return
            size = _LENGTH.unpack(await reader.readexactly(_LENGTH.size))[0]
            method, args = pickle.loads(await reader.readexactly(size))
            writer.write(_framed(await self._answer(method, args)))
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            pass  # whoever asked is gone
        finally:
            writer.close()

    async def remember(self, config: dict[str, Any]) -> None:
        """What a config file said, by application."""
        self._config.update(config)

    async def config(self) -> dict[str, Any]:
        """What was said of the applications that are still there."""
        there = await self._controller.names()
        return {name: said for name, said in self._config.items() if name in there}

    async def _answer(self, method: str, args: tuple[Any, ...]) -> tuple[Any, Exception | None]:
        if method not in (*self.OWN, *self.METHODS):
            return None, ValueError(f"{method!r} is none of {(*self.OWN, *self.METHODS)}")
        who = self if method in self.OWN else self._controller
        try:
            return await getattr(who, method)(*args), None
        except Exception as error:
            return None, error


def ask(port: int, method: str, *args: Any) -> Any:
    """What the instance at a port answers; ConnectionError if there is none."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as connection:
        try:
            connection.connect(_place(port))
        except OSError:
            raise ConnectionError(
                f"no instance of skate.serve of yours answers at port {port}: start one with "
                "`skate serve run module:app`, or say where it is with --port"
            ) from None
        if not is_ours(connection):
            raise ConnectionError(f"the instance at port {port} belongs to another user")
        connection.sendall(_framed((method, args)))
        with connection.makefile("rb") as answers:
            size = answers.read(_LENGTH.size)
            if not size:
                raise ConnectionError("the instance ended before it answered")
            value, error = pickle.loads(answers.read(_LENGTH.unpack(size)[0]))
    if error is not None:
        raise error
    return value


def _framed(value: Any) -> bytes:
    payload = pickle.dumps(value)
    return _LENGTH.pack(len(payload)) + payload


def _place(port: int) -> str:
    return f"\0skate-serve-{os.getuid()}-{port}"
