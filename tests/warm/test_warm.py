"""Programs that are forked with their imports done are as those that Python runs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import Program, eventually, run_program
from tests.warm import is_measured

SURROUNDINGS = """
import os, sys
import pandas
print(__name__, os.path.basename(__file__), sys.argv, sys.path[0], os.getcwd(), input())
print(os.environ["COLOUR"], sorted(os.listdir("/proc/self/fd")), __import__("__main__").pandas)
os.write(int(sys.argv[1]), b"through a descriptor")
sys.exit(3)
"""
NEVER_ENDS = """
import os, signal, sys
import pandas
print(os.getpid(), flush=True)
signal.pause()
"""


def see(python: str, file: Path) -> tuple[int, str, bytes]:
    read_end, write_end = os.pipe()
    done = run_program(
        [python, file, str(write_end)],
        input="a line\n",
        cwd=file.parent,
        env=os.environ | {"COLOUR": "blue"},
        pass_fds=[write_end],
    )
    os.close(write_end)
    with open(read_end, "rb") as pipe:
        return done.returncode, done.stdout, pipe.read()


def test_a_program_finds_the_same(warm_python: str, tmp_path: Path) -> None:
    file = tmp_path / "program.py"
    file.write_text(SURROUNDINGS)
    code, printed, written = see(warm_python, file)
    assert code == 3
    assert "blue" in printed
    assert written == b"through a descriptor"
    assert (code, printed, written) == see(sys.executable, file)


def test_a_module_and_an_error(warm_python: str, tmp_path: Path) -> None:
    (tmp_path / "broken.py").write_text("import pandas\nprint(__spec__.name)\npandas.nothing")
    environment = os.environ | {"WARM_PACKAGES": "pandas"}
    done = run_program([warm_python, "-m", "broken"], cwd=tmp_path, env=environment)
    assert done.returncode == 1
    assert done.stdout == "broken\n"
    assert "has no attribute 'nothing'" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
@pytest.mark.parametrize("who", ["client", "program"])
def test_an_end_by_a_signal(warm_python: str, who: str, number: signal.Signals) -> None:
    with Program([warm_python, "-c", NEVER_ENDS], stdout=subprocess.PIPE) as client:
        assert client.stdout is not None
        pid = int(client.stdout.readline())
        assert (pid == client.pid) is is_measured()
        os.kill(pid if who == "program" else client.pid, number)
        assert client.wait(60) == -number
        eventually(lambda: not os.path.exists(f"/proc/{pid}"))


@pytest.mark.parametrize(
    ("options", "code", "variables"),
    [
        ([], "pass", {}),
        (["-O"], "import pandas", {}),
        ([], "import pandas; sys.modules", {}),
        ([], "import pandas", {"PYTHONHASHSEED": "1"}),
    ],
    ids=["no slow import", "options", "about imports", "variables"],
)
def test_others_are_run_by_python_itself(
    warm_python: str, options: list[str], code: str, variables: dict[str, str]
) -> None:
    command = [warm_python, *options, "-c", f"import sys; {code}; print(sys.executable)"]
    done = run_program(command, env=os.environ | variables, check=True)
    assert done.stdout == f"{sys.executable}\n"
