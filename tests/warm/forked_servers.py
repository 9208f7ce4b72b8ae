"""Fork servers of sessions, which are forked themselves.

    test ── program, environment, ──► server_nursery.py ── clone ──► fork server,
            descriptors               has skate imported             a child of the test

A session has a fork server, an interpreter that imports skate: a tenth of a second of a processor,
for each of thousands of tests. Their workers import pytest, with the module of the test, which
takes as long. Here both are imported once. What runs is the same: a child of the
process that has the session, with an environment, folder and descriptors of its own. Programs
that tests start have servers as users have them.
"""

from __future__ import annotations

import marshal
import os
import resource
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from skate.engine.local.hub.servers import environ_of_servers
from tests.support import PATIENCE, Program
from tests.warm import SOURCES
from tests.warm.client import before_begin
from tests.warm.server_nursery import CLONE

_NURSERY = Path(__file__).with_name("server_nursery.py")
_ROOM_FOR_TITLES = "of a server" * 50

Spawn = Callable[[list[str], int], int]  # the command, the control socket; returns the pid


class ServerNursery:
    """Starts fork servers, by a process that has their imports done."""

    def __init__(self, otherwise: Spawn) -> None:
        self._otherwise = otherwise
        self._owner = os.getpid()
        self._begun_with = before_begin(dict(os.environ))
        self._lock = threading.Lock()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._socket.settimeout(PATIENCE)
        with theirs:
            self._process = Program(
                [sys.executable, _NURSERY, str(theirs.fileno()), _ROOM_FOR_TITLES],
                env={**os.environ, "PYTHONPATH": f"{SOURCES}{os.pathsep}{SOURCES.parent}"},
                stdin=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=False,
            )
        self._process.outlive_tests()

    def spawn(self, command: list[str], control: int) -> int:
        """Start a server as the engine does, and return its pid."""
        python, *options, program = command
        usual = python == sys.executable and options == ["-c"]
        begins_alike = before_begin(dict(os.environ)) == self._begun_with
        if not (usual and begins_alike and os.getpid() == self._owner):
            return self._otherwise(command, control)
        request = (
            program,
            environ_of_servers(),
            os.getcwd(),
            list(os.sched_getaffinity(0)),
            resource.getrlimit(resource.RLIMIT_NOFILE),
        )
        details = os.memfd_create("request")  # an environment may exceed a packet
        try:
            os.write(details, marshal.dumps(request))
            with self._lock:
                socket.send_fds(self._socket, [b"\0"], [details, 1, 2, control])
                answer = self._socket.recv(4)
        except ConnectionError:
            answer = b""
        finally:
            os.close(details)
        if not answer:  # it was killed, or could not fork; 0 would stand for all processes here
            return self._otherwise(command, control)
        return int.from_bytes(answer, "big")

    def end(self) -> None:
        """End the process; servers that it has forked go on."""
        self._socket.close()
        self._process.wait(PATIENCE)


@contextmanager
def forked_servers(usual: Spawn) -> Iterator[Spawn]:
    """Yield what starts the servers of sessions, in place of the usual way."""
    if sys.platform != "linux" or os.uname().machine not in CLONE:
        yield usual
        return
    nursery = ServerNursery(usual)
    try:
        yield nursery.spawn
    finally:
        nursery.end()
