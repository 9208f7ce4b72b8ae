"""Programs for the page to show, and pages of them."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.support import Program

PROGRAM = Path(__file__).parent / "shown.py"
ROOT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT}"}


def started(folder: Path, *arguments: str) -> Program:
    """Start `shown.py` in a folder; with "page", it has one."""
    return Program(
        [sys.executable, PROGRAM, *arguments],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=ENVIRONMENT,
    )


def line_of(program: Program, begins: str) -> list[str]:
    """Return the words of the next line that begins like this."""
    assert program.stdout is not None
    for line in program.stdout:
        if line.startswith(begins):
            return line.split()
    raise AssertionError("the program has ended")


def up(program: Program) -> str:
    """Wait until it is up; return the address of its page."""
    return " ".join(line_of(program, "up")[1:])


def told(program: Program, line: str) -> None:
    """Have it do something."""
    assert program.stdin is not None
    program.stdin.write(f"{line}\n")
    program.stdin.flush()
    line_of(program, "done")


def dashboard(*arguments: object) -> tuple[Program, str]:
    """Start `skate dashboard`; return its address, too."""
    command = [sys.executable, "-m", "skate", "dashboard", *map(str, arguments)]
    page = Program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=ENVIRONMENT)
    return page, line_of(page, "http://")[0].removeprefix("http://")
