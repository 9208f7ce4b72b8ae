"""`init(dashboard=True)` and `skate dashboard`: pages of real sessions, without a browser."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import skate
from skate.dashboard import launch
from skate.engine.sessions import state_of
from tests.dashboard.programs import ENVIRONMENT, dashboard, started, told, up
from tests.support import PATIENCE, eventually


def asked(address: str, path: str = "") -> Any:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=PATIENCE) as answer:
        text = answer.read().decode()
    return json.loads(text) if path.startswith("api") else text


def children() -> set[int]:
    """Of all threads."""
    found: set[int] = set()
    for file in Path("/proc/self/task").glob("*/children"):
        found.update(map(int, file.read_text().split()))
    return found


def pages_among(pids: set[int]) -> list[int]:
    found = []
    for pid in pids:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            if b"skate.dashboard" in file.read():
                found.append(pid)
    return found


@pytest.fixture(autouse=True)
def _no_page_stays() -> Iterator[None]:
    """End pages that were looked at, as they would end when nobody looks for a while."""
    yield
    skate.shutdown()
    while launch._lingering:
        process = launch._lingering.pop()
        process.kill()
        process.wait(PATIENCE)


@skate.remote
def noted(value: int) -> int:
    print("noted", value)
    return value


def test_nothing_is_there_unless_it_is_asked_for() -> None:
    code = (
        "import sys, threading, skate; context = skate.init(num_cpus=1); skate.put(1); "
        "assert context.dashboard_url == '' == context['webui_url']; "
        "assert not {'skate.dashboard', 'starlette', 'uvicorn'} & set(sys.modules); "
        "assert 'skate-dashboard' not in {thread.name for thread in threading.enumerate()}"
    )
    subprocess.run([sys.executable, "-c", code], check=True, timeout=PATIENCE, env=ENVIRONMENT)


@pytest.mark.parametrize("spelling", ["dashboard", "include_dashboard"])
def test_a_page(
    spelling: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    wanted: dict[str, Any] = {spelling: True}
    context = skate.init(num_cpus=1, **wanted)
    address = context.dashboard_url
    assert address.startswith("127.0.0.1:")
    assert f"http://{address}" in capsys.readouterr().err
    assert skate.get_runtime_context().get_dashboard_url() == address
    assert not pages_among(children())  # nobody has looked
    skate.get(noted.remote(1))
    assert "main.js" in asked(address)
    news = asked(address, "api/news")
    assert (news["pid"], news["facts"]["ended"], news["over"]) == (os.getpid(), 1, False)
    assert news["tasks"]["rows"][0][0] == "noted"
    assert len(pages_among(children())) == 1
    for path in ("api/waits", "api/objects", "api/libraries"):
        asked(address, path)
    with pytest.raises(urllib.error.HTTPError):
        asked(address.partition("/")[0] + "/", "api/news")
    assert skate.init(num_cpus=1, **wanted).dashboard_url == address


def test_a_page_that_nobody_looks_at_ends_with_the_session() -> None:
    context = skate.init(num_cpus=1, dashboard=True)
    host, _, port = context.dashboard_url.partition("/")[0].partition(":")
    with socket.create_connection((host, int(port))):  # somebody who does not know the token
        eventually(lambda: bool(pages_among(children())))
    (page,) = pages_among(children())
    skate.shutdown()
    assert state_of(page) is None
    assert context.dashboard_url == ""


def test_a_page_that_somebody_looks_at_shows_the_end() -> None:
    context = skate.init(num_cpus=1, dashboard=True)
    address = context.dashboard_url
    asked(address, "api/news")
    (page,) = pages_among(children())
    skate.get([noted.remote(number) for number in range(20)])
    skate.shutdown()
    news = asked(address, "api/news")
    assert news["over"]
    assert news["facts"]["ended"] == 20  # also what came after the last look
    assert len(news["tasks"]["rows"]) == 20
    assert [process.pid for process in launch._lingering] == [page]


def test_a_driver_that_is_killed(tmp_path: Path) -> None:
    program = started(tmp_path, "page")
    address = up(program)
    told(program, "tasks 4 0")
    assert asked(address, "api/news")["facts"]["ended"] == 5
    program.kill_group()
    program.wait(PATIENCE)

    def is_over() -> bool:
        return bool(asked(address, "api/news")["over"])

    eventually(is_over)
    news = asked(address, "api/news")
    assert news["facts"]["ended"] == 5
    assert news["failures"]["total"] == 1
    os.kill(page_at(address), 9)


def test_another_page_after_the_first_one_has_ended() -> None:
    address = skate.init(num_cpus=1, dashboard=True).dashboard_url
    asked(address, "api/news")
    (page,) = pages_among(children())
    os.kill(page, 15)
    eventually(lambda: state_of(page) is None)
    assert asked(address, "api/news")["pid"] == os.getpid()


def test_a_port_that_is_taken() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(OSError, match=f"port {port}; without a number, a free one"):
            skate.init(num_cpus=1, dashboard=True, dashboard_port=port)
    assert not skate.is_initialized()
    with skate.init(num_cpus=1, dashboard=True, dashboard_port=port) as context:
        assert context.dashboard_url.startswith(f"127.0.0.1:{port}/")


@pytest.mark.parametrize(
    ("given", "error"),
    [
        ({"dashboard": "yes"}, TypeError),
        ({"dashboard": True, "dashboard_port": 70_000}, ValueError),
        ({"dashboard": True, "dashboard_port": "8265"}, ValueError),
    ],
)
def test_what_is_refused(given: dict[str, Any], error: type[Exception]) -> None:
    with pytest.raises(error, match="dashboard"):
        skate.init(num_cpus=1, **given)
    assert not skate.is_initialized()


def test_without_what_serves_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    with pytest.raises(ImportError, match=r"\[serve\]"):
        skate.init(num_cpus=1, dashboard=True)
    assert not skate.is_initialized()


def test_other_hosts_and_engines(capsys: pytest.CaptureFixture[str]) -> None:
    context = skate.init(num_cpus=1, include_dashboard=True, dashboard_host="0.0.0.0")
    assert context.dashboard_url.startswith("127.0.0.1:")
    assert "ssh -L" in capsys.readouterr().err
    skate.shutdown()
    assert skate.init(engine="inline", dashboard=True).dashboard_url == ""
    assert "no page of the engine 'inline'" in capsys.readouterr().err


# -- the command ----------------------------------------------------------------------------------


def page_at(address: str) -> int:
    """The process that listens there."""
    port = int(address.partition("/")[0].partition(":")[2])
    import psutil

    own = (one for one in psutil.net_connections("tcp") if one.status == psutil.CONN_LISTEN)
    return next(int(one.pid) for one in own if one.laddr.port == port and one.pid)


def test_the_command_shows_a_session(tmp_path: Path) -> None:
    program = started(tmp_path)
    up(program)
    _, address = dashboard(program.pid)
    told(program, "tasks 6 0")
    eventually(lambda: asked(address, "api/news")["facts"]["ended"] == 7)
    news = asked(address, "api/news")
    assert news["failures"]["rows"][0]["error_message"].endswith(">")
    told(program, "shutdown")
    eventually(lambda: bool(asked(address, "api/news")["over"]))
    assert asked(address, "api/news")["tasks"]["total"] == 7


def test_the_command_shows_folders(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "result.json").write_text('{"training_iteration": 1, "loss": NaN, "acc": 0.5}\n')
    page, address = dashboard(tmp_path)
    assert asked(address, "api/news")["kind"] == "folder"
    (row,) = asked(address, "api/libraries")["runs"]
    found = asked(address, f"api/run?number={row['number']}")
    assert found["trials"][0]["metrics"]["loss"] == "nan"
    assert asked(address, f"api/run?number=0&version={found['version']}")["unchanged"]
    page.send_signal(2)
    assert page.wait(PATIENCE) == 0


@pytest.mark.parametrize("what", ["/nowhere/at/all", "999999999"])
def test_what_the_command_refuses(what: str) -> None:
    command = [sys.executable, "-m", "skate", "dashboard", what]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=PATIENCE, env=ENVIRONMENT, check=False
    )
    assert done.returncode == 1
    assert done.stderr.startswith("Error: ")
    assert what in done.stderr


def send_head(connection: socket.socket, megabytes: int) -> None:
    connection.sendall(b"GET / HTTP/1.1\r\n")
    for _ in range(16 * megabytes):
        connection.sendall(b"x: %s\r\n" % (b"y" * (1 << 16)))


def test_a_head_without_end_takes_no_memory(tmp_path: Path) -> None:
    """Whoever is on the machine may connect, and knows no token."""
    (tmp_path / "result.json").write_text('{"loss": 1}\n')
    page = subprocess.Popen(
        [sys.executable, "-m", "skate", "dashboard", str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
    )
    assert page.stdout is not None
    with page, page.stdout as printed:
        try:
            address = printed.readline().strip().removeprefix("http://")
            port = int(address.partition("/")[0].partition(":")[2])
            connection = socket.create_connection(("127.0.0.1", port), PATIENCE)
            with connection, pytest.raises(ConnectionError):
                send_head(connection, megabytes=256)
            assert "main.js" in asked(address)
        finally:
            page.kill()
