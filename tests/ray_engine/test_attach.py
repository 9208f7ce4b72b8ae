"""A head that was started on its own, without skate, and drivers that come to it."""

from __future__ import annotations

import contextlib
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from pathlib import Path
from time import monotonic
from typing import Any

import pytest

import skate
from tests.support import Program, eventually, run_program

ROOT = Path(__file__).parents[2]

# Python runs this when it starts: the cluster's interpreter does not find skate.
WITHOUT_SKATE = f"""
import sys
sys.path[:] = [folder for folder in sys.path if not folder.startswith({str(ROOT / "src")!r})]
"""

DRIVER = """
import sys
import skate

@skate.remote
class Home:
    def where(self):
        return skate.__file__, skate.engine.current_engine().name

home = Home.remote()
place, engine = skate.get(home.where.remote())
print("shipped" if "runtime_resources" in place else place, engine)
"""


class Head:
    """`ray start --head`, with ports and a folder of its own."""

    def __init__(self, folder: Path) -> None:
        self.port, self.client_port = _free_port(), _free_port()
        (folder / "sitecustomize.py").write_text(WITHOUT_SKATE)
        self.process = Program(
            [*self._command(), "--temp-dir", str(folder / "ray")],
            env={**os.environ, "PYTHONPATH": str(folder), "RAY_AUTH_MODE": "disabled"},
            cwd=folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def _command(self) -> list[str]:
        options = {
            "node-ip-address": "127.0.0.1",
            "port": self.port,
            "ray-client-server-port": self.client_port,
            "num-cpus": 1,
            "object-store-memory": 100_000_000,
            "include-dashboard": "false",
        }
        given = [f"--{name}={value}" for name, value in options.items()]
        return [sys.executable, "-m", "ray.scripts.scripts", "start", "--head", "--block", *given]

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def listens(self) -> bool:
        return _listens(self.port) and _listens(self.client_port)

    def stop(self) -> None:
        self.process.terminate()
        self.process.wait(60)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="module")
def head() -> Iterator[Head]:
    folder = Path(tempfile.mkdtemp(prefix="head-"))  # short: Ray's sockets lie in it
    made = Head(folder)
    try:
        eventually(made.listens, patience=150)
        yield made
    finally:
        made.stop()
        shutil.rmtree(folder, ignore_errors=True)


def run(folder: Path, **surroundings: str) -> str:
    """What the driver prints."""
    script = folder / "driver.py"
    script.write_text(DRIVER)
    done = run_program(
        [sys.executable, str(script)],
        env={**os.environ, **surroundings},
        cwd=folder,
        timeout=150,
    )
    assert done.stdout, done.stderr
    return done.stdout.strip()


pytestmark = pytest.mark.leaves("the head serves the whole module")


def test_skate_travels_to_a_cluster_that_lacks_it(head: Any, tmp_path: Path) -> None:
    assert run(tmp_path, SKATE_ADDRESS=head.address) == "shipped ray"


def test_a_job_of_the_cluster_runs_on_it_by_itself(head: Any, tmp_path: Path) -> None:
    surroundings = {"RAY_ADDRESS": head.address, "RAY_JOB_CONFIG_JSON_ENV_VAR": "{}"}
    assert run(tmp_path, **surroundings) == "shipped ray"


def test_the_address_may_be_that_of_ray_client(head: Any, tmp_path: Path) -> None:
    address = f"ray://localhost:{head.client_port}"
    assert run(tmp_path, SKATE_ADDRESS=address) == "shipped ray"


def test_the_address_of_the_head_may_be_written_as_for_ray_client(head: Any) -> None:
    from skate.engine.ray.addresses import head_address

    assert head_address(f"ray://127.0.0.1:{head.port}").endswith(f":{head.port}")


# -- addresses where there is nothing to join -----------------------------------------------------


def refused(address: str, patience: float = 60) -> str:
    """What the error says that `init` raises soon."""
    began = monotonic()
    with pytest.raises(ConnectionError) as caught:
        skate.init(address)
    assert monotonic() - began < patience
    assert repr(address) in str(caught.value)
    assert "ray start" in str(caught.value)  # the way out
    return str(caught.value)


def test_an_address_where_nothing_listens() -> None:
    assert "Connection refused" in refused(f"127.0.0.1:{_free_port()}")


def test_a_host_that_does_not_answer() -> None:
    with socket.socket() as full:  # connections that nobody accepts, until no more are taken
        full.bind(("127.0.0.1", 0))
        full.listen(0)
        port = full.getsockname()[1]
        with contextlib.ExitStack() as waiting:
            for _ in range(4):
                waiting.enter_context(_connecting(port))
            assert "no answer within 2 s" in refused(f"127.0.0.1:{port}")


def test_a_host_that_does_not_exist() -> None:
    assert "nothing answers there" in refused("no-such-host.invalid:6379")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b""])
def test_an_address_where_something_else_listens(answer: bytes) -> None:
    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1000)
            connection.sendall(answer)

    with socket.create_server(("127.0.0.1", 0)) as listening:
        server = threading.Thread(target=serve)
        server.start()
        assert "is not Ray" in refused(f"127.0.0.1:{listening.getsockname()[1]}")
        server.join(60)


def test_a_ray_client_that_leads_to_no_cluster_of_this_machine() -> None:
    words = refused(f"ray://localhost:{_free_port()}")
    assert "Ray Client" in words


def test_the_environment_names_the_address_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", f"127.0.0.1:{_free_port()}")
    with pytest.raises(ConnectionError, match=os.environ["RAY_ADDRESS"]):
        skate.init("auto")


@pytest.mark.parametrize("address", ["head", "head:port", ":6379", "ray://", "ray://head:x"])
def test_what_is_no_address(address: str) -> None:
    with pytest.raises(ValueError, match="'host:port'") as caught:
        skate.init(address)
    assert repr(address) in str(caught.value)


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _connecting(port: int) -> socket.socket:
    made = socket.socket()
    made.setblocking(False)
    made.connect_ex(("127.0.0.1", port))
    return made
