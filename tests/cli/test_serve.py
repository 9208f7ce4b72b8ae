"""`skate serve`: run, deploy, status, config, shutdown, build."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from skate.cli._reload import Watched
from skate.serve.schema import ServeDeploySchema
from tests.support import PATIENCE, Program, eventually, run_program

PROGRAM = """
from skate import serve

@serve.deployment(max_ongoing_requests=7)
class Price:
    def __init__(self, price=1):
        self.price = price

    def reconfigure(self, config):
        self.price = config["price"]

    def __call__(self):
        return self.price

@serve.deployment
class Shop:
    def __init__(self, price):
        self.price = price

    async def __call__(self):
        return {"price": await self.price.remote()}

app = Shop.bind(Price.bind())

@serve.deployment
def base():
    import os
    return os.environ["BASE"]

based = base.bind()

def build(arguments):
    return Shop.bind(Price.bind(arguments["price"]))
"""

RELOADED = """
from skate import serve
from prices import PRICE

@serve.deployment
def shop():
    return PRICE

app = shop.bind()
"""


def get(url: str) -> httpx.Response:
    return httpx.get(url, timeout=PATIENCE)


def skate(folder: Path, *arguments: str) -> str:
    """What a command prints, whether it goes well or not."""
    command = [sys.executable, "-m", "skate", "serve", *arguments]
    done = run_program(command, cwd=folder, timeout=PATIENCE)
    return done.stdout + done.stderr


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "shop.py").write_text(PROGRAM)
    return tmp_path


@pytest.fixture
def instance(folder: Path) -> Iterator[str]:
    """`skate serve run` on a free port; its address."""
    command = [sys.executable, "-m", "skate", "serve", "run", "--port", "0", "shop:app"]
    with Program(command, cwd=folder, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        assert line.startswith("Serving default at http://127.0.0.1:"), line
        yield line.split()[3]
        assert process.wait(PATIENCE) == 0


def test_an_instance_from_run_to_shutdown(instance: str, folder: Path) -> None:
    port = instance.rpartition(":")[2]
    assert get(instance).json() == {"price": 1}
    arguments = ("--name", "other", "--route-prefix", "/other", "shop:build", "price=5")
    assert skate(folder, "deploy", "--port", port, *arguments) == "Deployed other\n"
    assert get(f"{instance}/other").json() == {"price": "5"}
    status = yaml.safe_load(skate(folder, "status", "--port", port))
    assert {name: app["status"] for name, app in status["applications"].items()} == {
        "default": "RUNNING",
        "other": "RUNNING",
    }
    one = json.loads(skate(folder, "status", "--port", port, "--name", "other", "--json"))
    assert list(one["deployments"]) == ["Shop", "Price"]
    file = {
        "applications": [
            {
                "import_path": "shop:app",
                "deployments": [{"name": "Price", "user_config": {"price": 9}}],
            }
        ]
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(file))
    assert skate(folder, "deploy", "--port", port, "config.yaml") == "Deployed default\n"
    assert get(instance).json() == {"price": 9}
    grpc = {"grpc_servicer_functions": ["shop_pb2_grpc.add_ShopServicer_to_server"]}
    (folder / "other.yaml").write_text(yaml.safe_dump({**file, "grpc_options": grpc}))
    refusal = skate(folder, "deploy", "--port", port, "other.yaml")
    assert "grpc_options take effect when an instance is started" in refusal
    assert get(f"{instance}/-/routes").json() == {"/": "default"}  # the other is gone
    config = yaml.safe_load(skate(folder, "config", "--port", port))
    assert config["applications"][0]["deployments"] == file["applications"][0]["deployments"]
    environment = '{"env_vars": {"BASE": "30"}}'
    arguments = ("--runtime-env-json", environment, "--name", "env", "--route-prefix", "/env")
    assert skate(folder, "deploy", "--port", port, *arguments, "shop:based") == "Deployed env\n"
    assert get(f"{instance}/env").text == "30"
    assert "there is no application 'x'" in skate(folder, "config", "--port", port, "-n", "x")
    assert skate(folder, "shutdown", "--port", port, "-y") == ""


def test_applications_are_deployed_again_when_their_files_change(tmp_path: Path) -> None:
    (tmp_path / "prices.py").write_text("PRICE = 1\n")
    program = tmp_path / "shop.py"
    program.write_text(RELOADED)
    command = [
        sys.executable,
        "-m",
        "skate",
        "serve",
        "run",
        "--reload",
        "--port",
        "0",
        "shop:app",
    ]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    with Program(command, cwd=tmp_path, **pipes) as process:
        assert process.stdout is not None
        address = process.stdout.readline().split()[3]
        assert get(address).json() == 1
        (tmp_path / "prices.py").write_text("PRICE = 20\n")  # which the program imports
        eventually(lambda: get(address).json() == 20)
        program.write_text(RELOADED + "raise SystemError('half written')")
        said = iter(process.stdout.readline, "")
        assert next(line for line in said if "half written" in line).startswith("The change was")
        assert get(address).json() == 20
        program.write_text(RELOADED.replace("return PRICE", "return -PRICE"))
        eventually(lambda: get(address).json() == -20)
        skate(tmp_path, "shutdown", "--port", address.rpartition(":")[2])
        assert process.wait(PATIENCE) == 0


def test_what_an_application_writes_into_its_folder_is_no_change(tmp_path: Path) -> None:
    config = tmp_path / "config.yaml"
    config.write_text("applications: []")
    watched = Watched(str(tmp_path), [str(config)])
    for name in ("requests.log", "state.json", "other.yaml", ".hidden.py"):
        (tmp_path / name).write_text("written")
    assert watched.changed() == []
    config.write_text("applications: [] ")
    (tmp_path / "shop.py").write_text("x = 1")
    (tmp_path / "fast.so").write_text("")
    changed = ["config.yaml", "fast.so", "shop.py"]
    assert watched.changed() == [str(tmp_path / name) for name in changed]
    (tmp_path / "shop.py").unlink()
    assert watched.changed() == [str(tmp_path / "shop.py")]


def test_build_writes_a_config(folder: Path) -> None:
    config = yaml.safe_load(skate(folder, "build", "shop:app"))
    (app,) = config["applications"]
    assert (app["import_path"], app["route_prefix"]) == ("shop:app", "/")
    assert app["deployments"] == [
        {"name": "Shop", "num_replicas": 1},
        {"name": "Price", "num_replicas": 1, "max_ongoing_requests": 7},
    ]


def test_build_writes_what_grpc_needs(folder: Path) -> None:
    functions = ("shop_grpc.add_a", "shop_grpc.add_b")
    given = [word for path in functions for word in ("--grpc-servicer-functions", path)]
    config = yaml.safe_load(skate(folder, "build", *given, "--grpc-enable-reflection", "shop:app"))
    assert config["grpc_options"] == {
        "port": 9000,
        "grpc_servicer_functions": list(functions),
        "enable_reflection": True,
    }
    ServeDeploySchema.model_validate(config)


@pytest.mark.parametrize("command", [("serve", "build", "--as-ray"), ("ray", "serve", "build")])
def test_applications_that_say_import_ray(tmp_path: Path, command: tuple[str, ...]) -> None:
    (tmp_path / "shop.py").write_text(
        "import ray, skate\n"
        "from ray import serve\n"
        "assert ray.get is skate.get\n"
        "app = serve.deployment(lambda: 1).options(name='One').bind()\n"
    )
    done = run_program(
        [sys.executable, "-m", "skate", *command, "shop:app"], cwd=tmp_path, timeout=PATIENCE
    )
    (app,) = yaml.safe_load(done.stdout)["applications"]
    assert [one["name"] for one in app["deployments"]] == ["One"]


def test_a_port_that_is_taken_is_one_line(folder: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        printed = skate(folder, "run", "--port", port, "shop:app")
    assert printed.startswith(f"Error: cannot listen on http://127.0.0.1:{port}: another program")
    assert printed.count("\n") == 1


def test_programs_for_ray_find_the_command_serve(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(
        "from ray import serve\n"
        "app = serve.deployment(lambda: 1).options(name='One').bind()\n"
        "@serve.deployment\n"
        "class Broken:\n"
        "    def __init__(self):\n"
        "        raise OSError('no model here')\n"
        "broken = Broken.bind()\n"
    )
    program = tmp_path / "program.py"
    program.write_text(
        "import subprocess\n"
        "subprocess.run(['serve', 'build', '-d', '.', 'shop:app'], check=True)\n"
        "here = ['serve', 'status', '--port', '1', '-a', 'http://localhost:8265']\n"
        "assert b'port 1' in subprocess.run(here, stderr=subprocess.PIPE).stderr\n"
        "there = ['serve', 'status', '-a', 'http://10.0.0.1:8265']\n"
        "assert b'another machine' in subprocess.run(there, stderr=subprocess.PIPE).stderr\n"
        "assert b'applications: {}' in subprocess.check_output([*here])\n"
        "config = subprocess.check_output(['serve', 'config', '--port', '1'])\n"
        "assert config == b'No configuration was found.\\n'\n"
        "subprocess.run(['serve', 'shutdown', '-y', '--port', '1'], check=True)\n"
        "apart = ['serve', 'run', '--non-blocking', 'shop:app']\n"
        "assert b'into the background' in subprocess.run(apart, stderr=subprocess.PIPE).stderr\n"
        "broken = ['serve', 'run', '--port', '0', 'shop:broken']\n"
        "assert b'no model here' in subprocess.check_output(broken, stderr=subprocess.STDOUT)\n"
    )
    command = [sys.executable, "-m", "skate", "run", "--as-ray", str(program)]
    done = run_program(command, cwd=tmp_path, check=True, timeout=PATIENCE)
    assert "One" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("status", "--port", "1"), "no instance of skate.serve of yours answers at port 1"),
        (("deploy", "--port", "1", "shop:app"), "no instance of skate.serve of yours answers"),
        (("deploy", "--port", "1", "shpo:app"), "no instance of skate.serve of yours answers"),
        (("run", "shop:app", "price=1"), "is an application, and takes none"),
        (("run", "shop:build", "price"), "KEY=VALUE"),
        (("run", "shop:nope"), "there is no 'nope' in "),
        (("run", "shop:nope"), "shop.py; it has serve, Price, Shop, app, base, based, build"),
        (("run", "shpo:app"), "No module named 'shpo' is installed, or in "),
        (("run", "shpo:app"), "which has shop"),
        (("build", "shop:nope"), "there is no 'nope' in "),
        (("run", "shop:Shop"), "Expected a built Serve application"),
        (("run", "missing.yaml"), "No such file"),
        (("run", "--port", "99999", "shop:app"), "a port number up to 65535"),
        (("run", "cut.yaml"), "cut.yaml, line 2: expected the node content"),
        (("run", "--runtime-env", "cut.yaml", "shop:app"), "cut.yaml, line 2: expected the node"),
        (("run", "--runtime-env-json", "3", "shop:app"), "environment is a dictionary; got 3"),
    ],
)
def test_mistakes_are_one_line(folder: Path, arguments: tuple[str, ...], text: str) -> None:
    (folder / "cut.yaml").write_text("applications: [\n")
    printed = skate(folder, *arguments)
    assert printed.startswith("Error: ")
    assert printed.count("\n") == 1
    assert text in printed
    assert "Traceback" not in printed
