"""Questions from other processes: who may ask, and that nothing but answers comes of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import socket
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skate.serve._http import control_socket, socket_folder
from skate.serve._http.control_socket import ControlSocket, ask
from skate.serve.exceptions import SkateServeError
from tests.support import PATIENCE

PORT = 1  # nobody opens it: the name of a socket only


class Controller:
    async def names(self) -> list[str]:
        return ["a"]

    async def config(self) -> dict[str, str]:
        return {}

    async def delete(self, names: list[str]) -> None:
        raise ValueError(f"cannot delete {names}")


def asked(question: Callable[[str], Any]) -> Any:
    """Return what a question finds out, asked from a thread; it is given the socket's folder."""

    async def run() -> Any:
        where = socket_folder.make_folder()
        control = ControlSocket(Controller(), where, PORT)
        await control.open()
        try:
            return await asyncio.wait_for(asyncio.to_thread(question, where), PATIENCE)
        finally:
            control.close()
            assert not os.path.exists(where)

    return asyncio.run(run())


def test_answers_and_errors() -> None:
    assert asked(lambda _: ask(PORT, "names")) == ["a"]
    assert asked(lambda _: ask(PORT, "config")) == {}
    with pytest.raises(SkateServeError, match=r"cannot delete \['a'\]"):
        asked(lambda _: ask(PORT, "delete", ["a"]))
    with pytest.raises(SkateServeError, match="'_answer' is none of config, delete"):
        asked(lambda _: ask(PORT, "_answer"))


class Evil:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_a_question_is_not_code(tmp_path: Path) -> None:
    trace = tmp_path / "was here"

    def attack(where: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{where}/control-{PORT}")
            connection.sendall(pickle.dumps(Evil(trace)))
            connection.shutdown(socket.SHUT_WR)
            return connection.recv(1000)

    assert b'"error"' in asked(attack)
    assert not trace.exists()


def test_only_private_folders_are_asked(tmp_path: Path) -> None:
    """Another user, or another container on this network, may listen under any name."""

    def mode_of(where: str) -> int:
        return stat.S_IMODE(os.lstat(where).st_mode)

    assert asked(mode_of) == 0o700
    open_to_all = tmp_path / "taken"
    open_to_all.mkdir()
    open_to_all.chmod(0o755)
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(f"{open_to_all}/control-{PORT}")
        stranger.listen()
        with pytest.raises(ConnectionError, match="no instance of"):
            ask(PORT, "names")

        def asked_elsewhere(_: str) -> object:
            with pytest.raises(ConnectionError, match=rf"--port \(.*\b{PORT}\b"):
                ask(PORT + 1, "names")
            return "told"

        assert asked(asked_elsewhere) == "told"
        assert asked(lambda _: ask(PORT, "names")) == ["a"]
    with socket.socket(socket.AF_UNIX) as stranger:
        stranger.bind(f"\0skate-serve-{os.getuid()}-{PORT}")
        stranger.listen()
        assert asked(lambda _: ask(PORT, "names")) == ["a"]


def test_who_is_another_user_hears_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its question may hold a pickle."""
    monkeypatch.setattr(control_socket, "is_own_process", lambda connection: False)

    def question(where: str) -> bytes:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.connect(f"{where}/control-{PORT}")
            with contextlib.suppress(ConnectionError):
                connection.sendall(b'["names", []]')
                connection.shutdown(socket.SHUT_WR)
                return connection.recv(1000)
        return b""

    assert asked(question) == b""


def test_another_user_is_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_socket, "is_own_process", lambda connection: False)

    def question(_: str) -> str:
        with pytest.raises(ConnectionError, match="of yours"):
            ask(PORT, "names")
        return "refused"

    assert asked(question) == "refused"
