"""`serve start`, `deploy` and the like below a program for Ray: an instance in the background."""

from __future__ import annotations

import socket
import sys
from pathlib import Path

import pytest

from skate.cli import _background
from tests.support import PATIENCE, Program, eventually, run_program

APPS = """
from ray import serve

@serve.deployment
def number():
    return 1

one = number.bind()
"""

COMMANDS = """
import subprocess, sys, time, urllib.request, yaml

def serve(*arguments):
    done = subprocess.run(["serve", *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    assert done.returncode == 0, done.stdout
    return done.stdout.decode()

def status(app):
    return yaml.safe_load(serve("status", "--name", app))

def wait_for(app, wanted):
    while (found := status(app)["status"]) != wanted:
        assert found == "DEPLOYING", found
        time.sleep(0.05)

port = int(sys.argv[1])
def deploy(**paths):
    apps = [{"name": name, "route_prefix": f"/{name}", "import_path": path}
            for name, path in paths.items()]
    config = {"http_options": {"port": port}, "applications": apps}
    with open("config.yaml", "w") as file:
        yaml.safe_dump(config, file)
    assert "Sent deploy request successfully." in serve("deploy", "config.yaml")
    return apps

def ask(app):
    return urllib.request.urlopen(f"http://127.0.0.1:{port}/{app}").read()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "apps.py").write_text(APPS)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])


def is_free(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


def command_for(folder: Path, program: str, port: int) -> list[str]:
    (folder / "program.py").write_text(COMMANDS + program)
    return [sys.executable, "-m", "skate", "run", "--as-ray", "program.py", str(port)]


def test_deploy_starts_an_instance_that_ends_with_the_program(folder: Path) -> None:
    program = """
apps = deploy(a="apps:one", b="apps.one")
wait_for("a", "RUNNING")
wait_for("b", "RUNNING")
assert ask("a") == ask("b") == b"1"
assert list(yaml.safe_load_all(serve("config"))) == apps
deploy(b="apps:one", c="apps:nothing")
wait_for("c", "DEPLOY_FAILED")
assert "there is no 'nothing' in" in status("c")["message"]
assert list(yaml.safe_load(serve("status"))["applications"]) == ["b", "c"]
serve("shutdown", "-y")
assert serve("config").endswith("No configuration was found.\\n")
deploy(a="apps:one")
wait_for("a", "RUNNING")
print("works again")
"""
    port = free_port()
    done = run_program(command_for(folder, program, port), cwd=folder, timeout=PATIENCE)
    assert done.stdout == "works again\n", done.stderr
    eventually(lambda: is_free(port))


def test_start_and_stop(folder: Path) -> None:
    program = """
serve("start", "--http-port", str(port))
serve("start", "--http-port", str(port))
serve("deploy", "apps:one")
wait_for("default", "RUNNING")
print(subprocess.check_output(["ray", "stop"]).decode())
"""
    port = free_port()
    done = run_program(command_for(folder, program, port), cwd=folder, timeout=PATIENCE)
    assert "Ended what `serve` had started: 1." in done.stdout, done.stderr
    assert is_free(port)


def test_the_instance_ends_when_its_program_is_killed(folder: Path) -> None:
    program = """
serve("start", "--http-port", str(port))
print("up", flush=True)
time.sleep(1000)
"""
    port = free_port()
    with Program(command_for(folder, program, port), cwd=folder) as running:
        eventually(lambda: not is_free(port))
        running.kill()
        running.wait()
        eventually(lambda: is_free(port))


def test_a_port_that_is_taken_is_told(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        program = "subprocess.run(['serve', 'start', '--http-port', str(port)])"
        done = run_program(command_for(folder, program, port), cwd=folder, timeout=PATIENCE)
    assert f"cannot listen on http://127.0.0.1:{port}: another program listens" in done.stderr


def test_without_a_program_nothing_is_left_in_the_background(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SKATE_AS_RAY_PROGRAM", raising=False)
    assert _background.program_above() is None
    command = [sys.executable, "-m", "skate", "ray", "serve", "deploy", "--port", "1", "apps:one"]
    done = run_program(command, cwd=folder, timeout=PATIENCE)
    assert "no instance of skate.serve of yours answers at port 1" in done.stderr
