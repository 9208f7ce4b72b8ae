"""Of `ray._private.test_utils`: programs that are run, and processes that are waited for."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

__all__ = [
    "_pid_alive",
    "check_call_ray",
    "check_call_subprocess",
    "run_string_as_driver",
    "run_string_as_driver_nonblocking",
    "run_string_as_driver_stdout_stderr",
    "wait_for_children_of_pid",
    "wait_for_children_of_pid_to_exit",
    "wait_for_pid_to_exit",
]


def run_string_as_driver(
    driver_script: str,
    env: dict[str, str] | None = None,
    encode: str = "utf-8",
    timeout: float | None = None,
) -> str:
    """Run a program in an interpreter of its own, and return what it printed."""
    done = subprocess.run(
        [sys.executable, "-"],
        input=driver_script.encode(encode),
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=timeout,
    )
    printed = done.stdout.decode(encode)
    if done.returncode:
        print(printed, file=sys.stderr)
        raise subprocess.CalledProcessError(done.returncode, done.args, done.stdout)
    return printed


def run_string_as_driver_stdout_stderr(
    driver_script: str,
    env: dict[str, str] | None = None,
    encode: str = "utf-8",
    timeout: float | None = None,
) -> tuple[str, str]:
    """Run a program likewise, and return what it wrote to each of the two."""
    done = subprocess.run(
        [sys.executable, "-"],
        input=driver_script.encode(encode),
        env=env,
        capture_output=True,
        timeout=timeout,
        check=True,
    )
    return done.stdout.decode(encode), done.stderr.decode(encode)


def run_string_as_driver_nonblocking(
    driver_script: str, env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Run a program likewise, without waiting for it."""
    command = [sys.executable, "-c", driver_script]
    return subprocess.Popen(command, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def wait_for_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Return when the process is gone; TimeoutError after `timeout` seconds."""
    _wait_until_gone([pid], timeout)


def wait_for_children_of_pid(pid: int, num_children: int = 1, timeout: float = 20) -> None:
    """Return when the process has so many children."""
    end = time.monotonic() + timeout
    while len(_children(pid)) < num_children:
        if time.monotonic() > end:
            raise TimeoutError(f"process {pid} has children {_children(pid)}, not {num_children}")
        time.sleep(0.1)


def wait_for_children_of_pid_to_exit(pid: int, timeout: float = 20) -> None:
    """Return when the children that the process has now are gone."""
    _wait_until_gone(_children(pid), timeout)


def _wait_until_gone(pids: list[int], timeout: float) -> None:
    end = time.monotonic() + timeout
    while alive := [pid for pid in pids if _state(pid) not in ("", "Z")]:
        if time.monotonic() > end:
            raise TimeoutError(f"after {timeout} seconds, these processes still run: {alive}")
        time.sleep(0.1)


def _state(pid: int) -> str:
    """Return its letter in /proc, empty for a process that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def _children(pid: int) -> list[int]:
    tasks = Path(f"/proc/{pid}/task")
    return [int(child) for task in tasks.iterdir() for child in _listed(task / "children")]


def _listed(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:  # the thread has ended meanwhile
        return []


def _pid_alive(pid: int) -> bool:
    """Return whether there is such a process that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def check_call_subprocess(
    argv: list[str], capture_stdout: bool = False, capture_stderr: bool = False
) -> bytes:
    """Run a command, which has to succeed; return what was captured of its output."""
    done = subprocess.run(
        argv,
        stdout=subprocess.PIPE if capture_stdout else None,
        stderr=subprocess.PIPE if capture_stderr else None,
        check=True,
    )
    return (done.stdout or b"") + (done.stderr or b"")


def check_call_ray(
    args: list[str], capture_stdout: bool = False, capture_stderr: bool = False
) -> None:
    """Run the command `ray`, which has to succeed."""
    check_call_subprocess(["ray", *args], capture_stdout, capture_stderr)
