"""Servers that are forked with their imports done are as those that Python runs."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from skate.engine.local.hub.servers import _spawn as spawn_as_usual  # before it is replaced
from tests.warm.forked_servers import ServerNursery, Spawn

TELLS = """
import os, sys
here = [__name__, sys.argv, os.getcwd(), os.environ.get("COLOUR"), os.getppid()]
here += [os.getpgrp() == os.getpid(), os.path.realpath("/proc/self/fd/0"), sorted(os.environ)]
here += [sys.executable, sorted(os.sched_getaffinity(0))]
os.write(3, repr(here).encode())
sys.exit(3)
"""


def refuse(command: list[str], control: int) -> int:
    raise AssertionError("it should be forked")


@pytest.fixture
def nursery() -> Iterator[ServerNursery]:
    made = ServerNursery(otherwise=refuse)
    yield made
    made.end()


def told_by(spawn: Spawn, program: str = TELLS) -> tuple[str, int]:
    """Return what a server tells that is started in this way, and its exit code."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        pid = spawn([sys.executable, "-c", program], theirs.fileno())
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        return ours.recv(100_000).decode(), code


def test_a_server_finds_the_same(
    nursery: ServerNursery, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLOUR", "blue")
    told, code = told_by(nursery.spawn)
    assert code == 3
    assert "'blue'" in told
    assert str(os.getpid()) in told  # as its parent
    assert (told, code) == told_by(spawn_as_usual)


@pytest.mark.parametrize("module", ["skate.engine.local.worker_main", "pytest", "tests.support"])
def test_imports_are_done(nursery: ServerNursery, module: str) -> None:
    program = f"import os, sys; os.write(3, repr({module!r} in sys.modules).encode())"
    assert told_by(nursery.spawn, program) == ("True", 0)


def test_python_itself_runs_them_where_nobody_forks() -> None:
    nursery = ServerNursery(otherwise=lambda command, control: 42)
    nursery._process.kill()
    nursery._process.wait()
    assert nursery.spawn([sys.executable, "-c", TELLS], 0) == 42
    nursery.end()


def test_many_one_after_another(nursery: ServerNursery) -> None:
    assert len({told_by(nursery.spawn) for _ in range(20)}) == 1


@pytest.mark.parametrize(
    ("options", "variables"), [(["-O"], {}), ([], {"PYTHONHASHSEED": "1"})], ids=["-O", "variable"]
)
def test_others_are_run_by_python_itself(
    options: list[str], variables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[list[str]] = []

    def start(command: list[str], control: int) -> int:
        started.append(command)
        return 0

    nursery = ServerNursery(otherwise=start)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    command = [sys.executable, *options, "-c", "pass"]
    nursery.spawn(command, 0)
    nursery.end()
    assert started == [command]
