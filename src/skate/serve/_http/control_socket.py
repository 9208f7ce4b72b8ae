"""Questions to a running instance from other processes of the same user: `skate serve status`.

The controller answers on a Unix socket in the instance's folder (`socket_folder`); its name has
the port. One question per connection, in JSON; code to deploy is the user's own, pickled inside.
"""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
import os
import pickle
import socket
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import AS_RAY_PROGRAM
from skate._core.peer_credentials import is_own_process
from skate.serve._application.specs import ApplicationSpec
from skate.serve._http.loop_end import at_end_of_loop
from skate.serve._http.socket_folder import check_address, find_sockets, remove_socket
from skate.serve.exceptions import SkateServeError

if TYPE_CHECKING:
    from skate.serve.config import gRPCOptions

_METHODS = (
    "config", "delete", "deploy", "fail", "grpc_options", "names", "program", "remember",
    "shut_down", "status", "wait_until_settled",
)  # fmt: skip


class ControlSocket:
    """Answers questions, in the controller's process, by calling methods of the controller."""

    def __init__(self, controller: Any, folder: str, port: int) -> None:
        self._controller = controller
        self._address = os.path.join(folder, _name(port))
        self._server: asyncio.AbstractServer | None = None
        self._at_end: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Answer from now on."""
        self._server = await asyncio.start_unix_server(self._serve, check_address(self._address))
        self._at_end = at_end_of_loop(self.close)

    def close(self) -> None:
        """Answer no more."""
        if self._server is not None and self._at_end is not None:
            self._at_end.cancel()
            self._server.close()
            remove_socket(self._address)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            if is_own_process(writer.get_extra_info("socket")):
                answer = await self._answer(await reader.read())
                writer.write(json.dumps(answer, default=_plain).encode())
                await writer.drain()
        except OSError:
            pass  # whoever asked is gone
        finally:
            writer.close()

    async def _answer(self, question: bytes) -> dict[str, object]:
        try:
            method, arguments = json.loads(question)
            if method not in _METHODS:
                raise ValueError(f"{method!r} is none of {', '.join(_METHODS)}")
            who = self if hasattr(type(self), method) else self._controller
            return {"value": await getattr(who, method)(*arguments)}
        except Exception as error:
            return {"error": str(error) or repr(error)}

    async def deploy(self, packed: str, capacity: Sequence[float | None] = ()) -> None:
        """Make these the targets of their applications; `packed` by `pack`."""
        await self._controller.deploy(pickle.loads(base64.b64decode(packed)), capacity)

    async def program(self) -> int | None:
        """Return the process of the program for Ray that this instance was started below."""
        number = os.environ.get(AS_RAY_PROGRAM, "")
        return int(number) if number.isdigit() else None

    async def grpc_options(self) -> gRPCOptions | None:
        """Return what gRPC was started with; None if it is not answered."""
        from skate.serve._grpc.start import running_server

        server = running_server()
        return None if server is None else await server.options.remote()


def pack(specs: Sequence[ApplicationSpec]) -> str:
    """Make applications an argument of the question "deploy"."""
    return base64.b64encode(pickle.dumps(list(specs))).decode()


def ask(port: int, method: str, *arguments: object) -> Any:
    """Return what the instance at a port answers.

    Raises:
        ConnectionError: If there is none, or it ended before it answered.
        SkateServeError: If it refused.
    """
    with _connect(port) as connection:
        connection.sendall(json.dumps([method, arguments], default=_plain).encode())
        connection.shutdown(socket.SHUT_WR)
        with connection.makefile("rb") as answers:
            answer = answers.read()
    if not answer:
        raise ConnectionError("the instance ended before it answered")
    found = json.loads(answer)
    if "error" in found:
        raise SkateServeError(found["error"])
    return found["value"]


def _connect(port: int) -> socket.socket:
    for address in find_sockets(_name(port)):
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            connection.connect(address)
            if is_own_process(connection):
                return connection
        except OSError:
            pass  # it ended a moment ago
        connection.close()
    raise nobody_answers(port)


def known_ports() -> list[int]:
    """Return the ports of all instances of this user."""
    return sorted({int(address.rpartition("-")[2]) for address in find_sockets(_name("*"))})


def nobody_answers(port: int) -> ConnectionError:
    """Return the error about a port without an instance."""
    ports = ", ".join(map(str, known_ports()))
    return ConnectionError(
        f"no instance of skate.serve of yours answers at port {port}: start one with "
        "`skate serve run module:app`, or say where it is with --port"
        + (f" ({ports})" if ports else "")
    )


def _name(port: int | str) -> str:
    return f"control-{port}"


def _plain(value: object) -> Any:
    """Return what JSON has for records; enumerations of strings are strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"{type(value).__name__} is no JSON: {value!r}")
