"""The socket on which a process of a session is asked."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from skate._core.peer_credentials import is_own_process
from skate.engine.local.inspection.traces import SOCKET_PREFIX
from skate.engine.local.reactor import Reactor
from skate.engine.local.socket_paths import use_socket

_BACKLOG = 8
_MOST_AT_ONCE = 8
_MOST_BYTES = 65536  # of a question
_PATIENCE_SECONDS = 10.0  # with who asks slowly, or does not read the answer
_END_SECONDS = 1.0

Answers = Mapping[str, Callable[..., Any]]


class QuestionSocket:
    """Answers questions of other processes of the same user, one in each connection.

    The reactor notices who asks; a thread that lives for one question answers, so that nobody
    who asks can keep the process from its work.

    Args:
        reactor: Who polls the socket.
        folder: Where it is made, one that only this user can enter.
        answers: What can be asked, by name. Answers are JSON; arguments come as keywords.
    """

    def __init__(self, reactor: Reactor, folder: str, answers: Answers) -> None:
        self._reactor = reactor
        self._answers = answers
        self._open: dict[socket.socket, threading.Thread] = {}
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            use_socket(folder, f"{SOCKET_PREFIX}{os.getpid()}", self._socket.bind)
            self._socket.listen(_BACKLOG)
        except OSError:  # no /proc, a full file system: nobody can look in, and all else works
            self._socket.close()
            return
        self._socket.setblocking(False)
        reactor.add(self._socket.fileno(), self._accept)

    def _accept(self) -> None:
        try:
            connection, _ = self._socket.accept()
        except OSError:  # who asked is gone
            return
        if len(self._open) >= _MOST_AT_ONCE or not is_own_process(connection):
            connection.close()
            return
        thread = threading.Thread(
            target=self._serve, args=(connection,), name="skate-question", daemon=True
        )
        self._open[connection] = thread
        try:
            thread.start()
        except RuntimeError:  # the system has no more of them for this process
            del self._open[connection]
            connection.close()

    def _serve(self, connection: socket.socket) -> None:
        import json  # here, as most workers are never asked

        try:
            with connection, suppress(OSError, ValueError):
                connection.settimeout(_PATIENCE_SECONDS)
                answer = self._answer(json.loads(_question_of(connection)))
                connection.sendall(json.dumps(answer, default=str).encode())
                # A process that was forked meanwhile may have the connection open as well.
                connection.shutdown(socket.SHUT_RDWR)
        finally:
            self._open.pop(connection, None)

    def _answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        try:
            name = asked.pop("ask")
            if name not in self._answers:
                raise ValueError(f"{name!r} is none of {', '.join(self._answers)}")
            return {"value": self._answers[name](**asked)}
        except Exception as error:  # who asks is told
            return {"error": f"{type(error).__name__}: {error}"}

    def close(self) -> None:
        """Answer no more. The socket's file goes with its folder."""
        if self._socket.fileno() < 0:
            return
        self._reactor.remove(self._socket.fileno())
        self._socket.close()
        for connection, thread in list(self._open.items()):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            if thread is not threading.current_thread():
                thread.join(_END_SECONDS)

    def detach_in_child(self) -> None:
        """Detach in a forked child: who asks means the parent."""
        self._socket.close()
        for connection in list(self._open):
            connection.close()


def _question_of(connection: socket.socket) -> bytes:
    """Read a line."""
    question = b""
    while not question.endswith(b"\n"):
        more = connection.recv(_MOST_BYTES)
        if not more:
            break
        question += more
        if len(question) > _MOST_BYTES:
            raise OSError(f"a question has {_MOST_BYTES} bytes at most")
    return question
