"""What workers have from the interpreter of the driver, and what ends with them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import skate
from tests.support import PATIENCE, Program, eventually, run_program

SHOW_FLAGS = """
    import sys, warnings, skate

    def flags():
        try:
            assert False
            asserts = False
        except AssertionError:
            asserts = True
        f = sys.flags
        given = f.utf8_mode, f.optimize, f.isolated, f.dev_mode, asserts, sys.warnoptions
        return *given, sys._xoptions, sys.get_int_max_str_digits()

    if __name__ == "__main__":
        with skate.init(num_cpus=1):
            there = skate.get(skate.remote(flags).remote())
            print("same" if there == flags() else (there, flags()))
"""


@pytest.mark.parametrize(
    "options",
    [
        ["-X", "utf8", "-O"],
        ["-W", "ignore::UserWarning", "-I"],
        ["-X", "dev"],
        ["-X", "int_max_str_digits=0", "-X", "no_debug_ranges"],
    ],
    ids=str,
)
def test_options_of_the_interpreter_reach_workers(options: list[str], tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    program.write_text(textwrap.dedent(SHOW_FLAGS))
    environ = {**os.environ, "PYTHONWARNINGS": ""}
    command = [sys.executable, *options, str(program)]
    done = run_program(command, timeout=PATIENCE, env=environ)
    assert done.stdout == "same\n", done.stderr


DAEMON = """
    import os, sys, time, skate

    def leave_a_daemon():
        # In a session of its own, and its parent ends at once.
        read, write = os.pipe()
        if os.fork() == 0:
            os.setsid()
            if os.fork() == 0:
                os.write(write, str(os.getpid()).encode())
                time.sleep(600)
            os._exit(0)
        return int(os.read(read, 20))

    skate.init(num_cpus=1)
    print(skate.get(skate.remote(leave_a_daemon).remote()), flush=True)
    if sys.argv[1] == "wait":
        time.sleep(600)
"""


@pytest.mark.parametrize("end", ["shutdown", "kill"])
def test_daemons_of_tasks_end_with_the_driver(end: str) -> None:
    program = [sys.executable, "-c", textwrap.dedent(DAEMON), "wait" if end == "kill" else "end"]
    driver = Program(program, stdout=subprocess.PIPE)
    assert driver.stdout is not None
    daemon = int(driver.stdout.readline())
    if end == "kill":
        assert os.path.exists(f"/proc/{daemon}")
        driver.send_signal(signal.SIGKILL)
    driver.wait(PATIENCE)
    driver.stdout.close()
    eventually(lambda: not os.path.exists(f"/proc/{daemon}"))


@pytest.mark.parametrize("preload", [[None], "numpy", [b"numpy"], 5])
def test_names_of_modules_are_checked(preload: Any) -> None:
    with pytest.raises(TypeError, match="preload takes a list of module names"):
        skate.init(num_cpus=1, preload=preload)
