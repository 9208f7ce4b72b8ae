"""The machinery of the tests: they run anywhere, and end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.support import Program, eventually, run_program

ROOT = Path(__file__).parents[1]

WITH_A_CHILD = """
import os, time
if os.fork() == 0:
    time.sleep(1000)
print("begun", flush=True)
time.sleep(1000)
"""

INTERRUPTING = """
import signal, sys
from subprocess import PIPE, run
from tests.support import Program

SLEEPING = "import time; print('begun', flush=True); time.sleep(1000)"


def test_a_program():
    with Program([sys.executable, "-c", SLEEPING], stdout=PIPE, stderr=PIPE) as program:
        program.stdout.readline()
        program.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in program.stderr.read()


def test_a_program_of_a_program():
    code = "import signal; print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)"
    assert run([sys.executable, "-c", code], stdout=PIPE).stdout == b"True\\n"
"""

HANGING = """
import subprocess, sys, time
import pytest

@pytest.mark.timeout(0)
def test_that_hangs():
    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(1000)"])
    with open({told!r}, "w") as file:
        file.write(str(child.pid))
    time.sleep(1000)
"""


def pytest_command(file: Path) -> list[str]:
    """Run a file of tests as if it were one of ours."""
    options = ["-q", "-p", "no:cacheprovider", "-p", "tests.conftest", "-c", "pyproject.toml"]
    return [sys.executable, "-m", "pytest", *options, str(file)]


def test_a_program_ends_with_an_error_in_its_with() -> None:
    """Also if others have its pipe, which it would be read from for ever."""
    program = Program([sys.executable, "-c", WITH_A_CHILD], stdout=subprocess.PIPE)
    assert program.stdout is not None
    assert program.stdout.readline() == "begun\n"
    family = psutil.Process(program.pid).children()
    with pytest.raises(ZeroDivisionError), program:
        raise ZeroDivisionError
    assert program.returncode == -signal.SIGKILL
    eventually(lambda: not any(child.is_running() for child in family))


def test_a_program_that_takes_too_long_is_killed_with_what_it_has_started() -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        run_program([sys.executable, "-c", WITH_A_CHILD], timeout=1)


def test_programs_end_with_their_test() -> None:
    before = len(Program.started)
    left = Program([sys.executable, "-c", WITH_A_CHILD], stdin=subprocess.PIPE)
    Program.end_all(since=before)
    assert left.returncode == -signal.SIGKILL
    assert len(Program.started) == before


def test_a_program_that_must_end_well_shows_what_it_said() -> None:
    with pytest.raises(AssertionError, match="no such luck"):
        run_program([sys.executable, "-c", "raise SystemExit('no such luck')"], check=True)


def test_tests_run_where_interrupts_are_ignored(tmp_path: Path) -> None:
    """As behind a shell's `&`, or `nohup`."""
    file = tmp_path / "test_interrupting.py"
    file.write_text(INTERRUPTING)
    ignoring = ["/bin/sh", "-c", 'trap "" INT; exec "$@"', "sh"]
    done = run_program([*ignoring, *pytest_command(file)], cwd=ROOT)
    assert "2 passed" in done.stdout, done.stdout


def test_a_run_that_hangs_is_ended_and_shows_where(tmp_path: Path) -> None:
    file, told = tmp_path / "test_hanging.py", tmp_path / "told"
    file.write_text(HANGING.format(told=str(told)))
    environment = {**os.environ, "SKATE_TEST_LIMIT_SECONDS": "5", "SKATE_TEST_SESSION": "hanging"}
    done = run_program(pytest_command(file), cwd=ROOT, env=environment)
    assert done.returncode == 124
    eventually(lambda: not psutil.pid_exists(int(told.read_text())))
    assert "not ended within 5 s" in done.stderr
    assert "test_hanging.py" in done.stderr
