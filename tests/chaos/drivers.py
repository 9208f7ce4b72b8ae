"""Programs that use skate, run as processes of their own, so that they can be killed."""

from __future__ import annotations

import os
import shutil
import signal
import stat
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from pathlib import Path

import pytest

import skate
from tests.support import Program, run_program

SECONDS = 120


def environment(**more: str) -> dict[str, str]:
    """This process's environment, with skate importable."""
    source = str(Path(skate.__file__).parents[1])
    paths = [source, os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, paths)), **more}


def spawn(code: str, prefix: Sequence[str] = (), **more: str) -> Program:
    """Start a program; its output is readable line by line."""
    return Program(
        [*prefix, sys.executable, "-u", "-c", textwrap.dedent(code)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(**more),
    )


def run(command: Sequence[str], text: str | None = None, **more: str) -> str:
    """Run a command to its end; returns what it printed, fails if it failed."""
    done = run_program(
        command,
        input=text,
        stderr=subprocess.STDOUT,
        env=environment(**more),
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


def run_code(code: str, prefix: Sequence[str] = (), **more: str) -> str:
    return run([*prefix, sys.executable, "-c", textwrap.dedent(code)], **more)


def finish(process: Program) -> str:
    """The rest of what a spawned program prints, when it has ended well."""
    assert process.stdout is not None
    out = process.stdout.read()
    assert process.wait(timeout=SECONDS) == 0, out
    return out


def kill(process: Program) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate(timeout=SECONDS)


def line(process: Program) -> str:
    """The next line that the program prints."""
    assert process.stdout is not None
    return process.stdout.readline().strip()


def small_mounts(**sizes: str) -> list[str]:
    """A prefix that runs a command where these directories are small file systems of their own.

    Directories are given with underscores: dev_shm="64m" for /dev/shm.
    """
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        pytest.skip("mounting a small file system needs root and unshare")
    mounts = "".join(
        f"mount -t tmpfs -o size={size} tmpfs /{name.replace('_', '/')} && "
        for name, size in sizes.items()
    )
    return ["unshare", "-m", "sh", "-c", mounts + 'exec "$@"', "sh"]


def as_nobody() -> tuple[list[str], str]:
    """A prefix that runs a command as another user, and a Python which that user may run."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("becoming another user needs root and setpriv")
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    return prefix, _python_for_everybody()


def _python_for_everybody() -> str:
    for candidate in (sys.executable, "/usr/bin/python3"):
        path = Path(candidate).resolve()
        if path.exists() and _everybody_may_enter(path) and _version(path) == _version(None):
            return candidate
    pytest.skip("no Python of this version that another user may run")


def _everybody_may_enter(path: Path) -> bool:
    return all(parent.stat().st_mode & stat.S_IXOTH for parent in path.parents)


def _version(path: Path | None) -> str:
    code = "import sys; print(*sys.version_info[:2])"
    command = [str(path or sys.executable), "-c", code]
    return run_program(command, check=True).stdout
