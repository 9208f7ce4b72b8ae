"""`skate run` is `python` with skate around it: arguments, `__main__`, exit codes, tracebacks."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import skate
from tests.support import PATIENCE, Program, run_program


def skate_command(
    *arguments: str, cwd: Path, **environment: str
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "skate", *arguments]
    return run_program(command, cwd=cwd, env={**os.environ, **environment})


def python(*arguments: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, *arguments]
    return run_program(command, cwd=cwd)


@pytest.fixture
def place(tmp_path: Path) -> Path:
    (tmp_path / "beside.py").write_text("value = 5\n")
    (tmp_path / "script.py").write_text(
        "import sys, beside, __main__\n"
        "print(__name__, __file__, __package__, __spec__, sys.argv, beside.value)\n"
        "print(__main__.__dict__ is globals())\n"
        "def annotated(x: int): ...\n"
        "print(annotated.__annotations__)\n"
    )
    (tmp_path / "as_ray.py").write_text(
        "import ray, skate\n"
        "@ray.remote\n"
        "def square(x):\n"
        "    return ray.get(ray.put(x * x))\n"
        "class Point:\n"
        "    pass\n"
        "@ray.remote\n"
        "def point():\n"
        "    return Point()\n"
        "if __name__ == '__main__':\n"
        "    ray.init(num_cpus=2)\n"
        "    print(ray.get([square.remote(i) for i in range(3)]), ray.get is skate.get)\n"
        "    print(isinstance(ray.get(point.remote()), Point))\n"
    )
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import sys\nfrom . import part\nprint(__name__, __package__, sys.argv[1:], part.value)\n"
    )
    (package / "part.py").write_text("value = 6\n")
    return tmp_path


@pytest.mark.parametrize(
    "arguments",
    [
        ("script.py", "one", "--help", "-m", "--as-ray"),
        ("./script.py",),
        ("-m", "package", "--version", "-x"),
        ("-m", "package.part"),
        ("-m", "beside"),
        ("package",),
    ],
)
def test_the_program_sees_what_python_shows_it(place: Path, arguments: tuple[str, ...]) -> None:
    ours, plain = skate_command("run", *arguments, cwd=place), python(*arguments, cwd=place)
    assert (ours.stdout, ours.returncode) == (plain.stdout, plain.returncode)


@pytest.mark.parametrize(
    "code",
    ["import sys; sys.exit(3)", "raise SystemExit('why')", "1 / 0", "import os; os._exit(9)"],
)
def test_exit_codes_and_tracebacks(place: Path, code: str) -> None:
    (place / "ends.py").write_text(f"def end():\n    {code}\nend()\n")
    ours, plain = skate_command("run", "ends.py", cwd=place), python("ends.py", cwd=place)
    assert ours.returncode == plain.returncode
    assert ours.stderr.replace(str(place) + "/", "") == plain.stderr.replace(str(place) + "/", "")


def test_ray_is_skate(place: Path) -> None:
    done = skate_command("run", "--as-ray", "as_ray.py", cwd=place)
    assert done.stdout == "[0, 1, 4] True\nTrue\n", done.stderr


def test_ray_is_skate_in_tests(place: Path) -> None:
    (place / "test_it.py").write_text(
        "import ray\n"
        "def test_it():\n"
        "    with ray.init(num_cpus=1):\n"
        "        assert ray.get(ray.remote(lambda: ray.__version__).remote())\n"
    )
    done = skate_command(
        "run", "--as-ray", "-m", "pytest", "-q", "-p", "no:cacheprovider", cwd=place
    )
    assert "1 passed" in done.stdout, done.stdout


@pytest.mark.parametrize(("options", "says"), [((), "reported"), (("--as-ray",), "refused")])
def test_reports_without_a_trainer(place: Path, options: tuple[str, ...], says: str) -> None:
    (place / "loop.py").write_text(
        "from skate import train\n"
        "try:\n"
        "    train.report({'loss': 1})\n"
        "    print('reported')\n"
        "except RuntimeError:\n"
        "    print('refused')\n"
    )
    done = skate_command("run", *options, "loop.py", cwd=place, SKATE_STORAGE=str(place / "runs"))
    assert done.stdout == f"{says}\n", done.stderr


def test_the_engine_by_an_option(place: Path) -> None:
    (place / "where.py").write_text(
        "import os, skate\nprint(skate.get(skate.remote(os.getpid).remote()) == os.getpid())\n"
    )
    assert skate_command("run", "--engine", "inline", "where.py", cwd=place).stdout == "True\n"


def test_what_cannot_be_run(place: Path) -> None:
    missing = skate_command("run", "nothing.py", cwd=place)
    assert missing.returncode != 0
    assert "nothing.py" in missing.stderr
    assert "nothing" in skate_command("run", "-m", "nothing", cwd=place).stderr
    assert skate_command("run", cwd=place).returncode == 2
    assert "--as-roy" in skate_command("run", "--as-roy", "script.py", cwd=place).stderr


def test_the_version(place: Path) -> None:
    assert skate.__version__ in skate_command("--version", cwd=place).stdout


INTERRUPTED = """
import skate, time

@skate.remote
def sleep():
    time.sleep(1000)

skate.init(num_cpus=1)
ref = sleep.remote()
print("ready", flush=True)
skate.{call}
"""


@pytest.mark.parametrize("call", ["get(ref)", "wait([ref])"])
def test_an_interrupt_shows_lines_of_the_program(tmp_path: Path, call: str) -> None:
    (tmp_path / "script.py").write_text(INTERRUPTED.format(call=call))
    command = [sys.executable, "-m", "skate", "run", "script.py"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with Program(command, cwd=tmp_path, **pipes) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=PATIENCE)
    assert program.returncode == -signal.SIGINT
    files = [line.split('"')[1] for line in errors.splitlines() if line.startswith("  File ")]
    assert files[0] == str(tmp_path / "script.py")
    assert len(files) <= 2  # and one line of skate's
    assert errors.rstrip().endswith("KeyboardInterrupt")
