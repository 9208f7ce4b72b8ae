"""A head that was started on its own, without skate, and drivers that come to it."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

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
        self.port = _free_port()
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
            "ray-client-server-port": _free_port(),
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
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

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


def test_the_address_may_be_written_as_for_ray_client(head: Any, tmp_path: Path) -> None:
    assert run(tmp_path, SKATE_ADDRESS=f"ray://{head.address}") == "shipped ray"


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        (None, "auto"),
        ("auto", "auto"),
        ("head:1234", "head:1234"),
        ("ray://head:10001", "head:6379"),
        ("ray://head", "head:6379"),
        ("ray://head:1234", "head:1234"),
    ],
)
def test_addresses(written: str | None, meant: str) -> None:
    from skate.engine.ray.connection import _resolved

    assert _resolved(written) == meant
