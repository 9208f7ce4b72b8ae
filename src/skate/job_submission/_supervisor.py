"""The process that watches over one job: starts its entrypoint, waits, and notes what happens.

It is nobody's child, so that a job outlives the program that submitted it.
"""

from __future__ import annotations

import os
import select
import shutil
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from itertools import takewhile
from typing import Any

from skate._core.variable_references import expand_variables
from skate.job_submission._details import JobErrorType, JobInfo, JobStatus
from skate.job_submission._folders import MARK, JobFolder

_STOP_SIGNALS = ("SIGINT", "SIGTERM", "SIGKILL")
_STOP_SECONDS = 3.0
_SHOWN = 20_000  # characters of the log, in the message of a job that failed
_SIMPLE = {"env_vars", "working_dir", "excludes", "config"}  # needs no session


def main() -> None:
    """Run the job whose folder, lock and pipe this process was started with."""
    if os.fork():  # whoever started this one need not wait for the job
        os._exit(0)
    folder = JobFolder(sys.argv[1])
    info, _ = folder.read()
    try:
        environ, directory = _surroundings(info.runtime_env or {})
    except Exception:
        message = f"runtime_env setup failed: {traceback.format_exc()}"
        _end(folder, info, JobStatus.FAILED, None, message,
             JobErrorType.RUNTIME_ENV_SETUP_FAILURE)  # fmt: skip
        return
    control = int(sys.argv[3])
    if select.select([control], [], [], 0)[0]:  # stopped before it began
        _end(folder, info, JobStatus.STOPPED, None)
        return
    environ.update({MARK: folder.path, "PYTHONUNBUFFERED": "1"})
    try:
        with open(folder.output, "ab") as output:
            process = subprocess.Popen(
                info.entrypoint, shell=True, env=environ, cwd=directory, stdin=subprocess.DEVNULL,
                stdout=output, stderr=output, start_new_session=True,
            )  # fmt: skip
    except Exception:
        _end(folder, info, JobStatus.FAILED, None, traceback.format_exc(),
             JobErrorType.JOB_ENTRYPOINT_COMMAND_START_ERROR)  # fmt: skip
        return
    info = replace(info, status=JobStatus.RUNNING, message=None)
    folder.write(info, process.pid)
    _see_through(folder, info, process, control)


def _see_through(
    folder: JobFolder, info: JobInfo, process: subprocess.Popen[bytes], control: int
) -> None:
    """Wait until the entrypoint has ended, or is to be stopped."""

    def wait() -> None:
        process.wait()
        os.write(control, b"e")

    threading.Thread(target=wait, daemon=True).start()
    if os.read(control, 1) == b"s":
        _stop(process)
        _end(folder, info, JobStatus.STOPPED, process)
    elif process.returncode == 0:
        _end(folder, info, JobStatus.SUCCEEDED, process)
    else:
        message = f"The entrypoint failed with exit code {process.returncode}"
        shown = _tail(folder.output)
        message += f". It last printed:\n{shown}" if shown else ", and has printed nothing."
        kind = JobErrorType.JOB_ENTRYPOINT_COMMAND_ERROR
        _end(folder, info, JobStatus.FAILED, process, message, kind)


def _end(
    folder: JobFolder,
    info: JobInfo,
    status: JobStatus,
    process: subprocess.Popen[bytes] | None,
    message: str | None = None,
    error_type: JobErrorType | None = None,
) -> None:
    over = replace(
        info,
        status=status,
        message=message,
        error_type=error_type,
        end_time=time.time_ns() // 1_000_000,
        driver_exit_code=process.returncode if process and status != JobStatus.STOPPED else None,
    )
    folder.write(over, process.pid if process else None)


def _stop(process: subprocess.Popen[bytes]) -> None:
    """Ask the processes of the entrypoint to end, and end them."""
    wanted = os.environ.get("RAY_JOB_STOP_SIGNAL", "")
    name = wanted if wanted in _STOP_SIGNALS else "SIGTERM"
    seconds = float(os.environ.get("RAY_JOB_STOP_WAIT_TIME_S") or _STOP_SECONDS)
    _signal_group(process.pid, getattr(signal, name))
    deadline = time.monotonic() + seconds
    while _group_lives(process) and time.monotonic() < deadline:
        time.sleep(0.01)
    _signal_group(process.pid, signal.SIGKILL)


def _group_lives(process: subprocess.Popen[bytes]) -> bool:
    """Return whether any process of the group is there; the thread that waits reaps the first of
    them."""
    try:
        os.killpg(process.pid, 0)
    except ProcessLookupError:
        return False
    return True


def _signal_group(group: int, number: int) -> None:
    try:
        os.killpg(group, number)
    except ProcessLookupError:
        pass


def _tail(path: str) -> str:
    with open(path, "rb") as file:
        file.seek(max(0, os.fstat(file.fileno()).st_size - 4 * _SHOWN))
        return file.read().decode(errors="replace")[-_SHOWN:]


def _surroundings(runtime_env: Mapping[str, Any]) -> tuple[dict[str, str], str]:
    """Return the variables and the directory of the entrypoint."""
    environ = dict(os.environ)
    _have_this_python(environ)
    directory = str(runtime_env.get("working_dir", os.getcwd()))
    folders: list[str] = []
    if not (set(runtime_env) <= _SIMPLE and os.path.isdir(directory)):
        directory, folders = _worker_of(runtime_env, environ)
    if "working_dir" in runtime_env:
        folders = [directory, *folders]
    inherited = [environ["PYTHONPATH"]] if environ.get("PYTHONPATH") else []
    if folders:
        environ["PYTHONPATH"] = os.pathsep.join([*dict.fromkeys(folders), *inherited])
    environ.update(expand_variables(dict(runtime_env.get("env_vars", {})), environ))
    return environ, directory


def _have_this_python(environ: dict[str, str]) -> None:
    """Have `python` mean this interpreter, which has what the submitter has."""
    own, path = os.path.dirname(sys.executable), environ.get("PATH", os.defpath)
    found = shutil.which("python", path=path)
    if found is None or os.path.dirname(found) != own:
        environ["PATH"] = os.pathsep.join([own, path])


def _worker_of(runtime_env: Mapping[str, Any], environ: dict[str, str]) -> tuple[str, list[str]]:
    """Have the environment made as for workers; archives are there until this process ends."""
    import skate

    skate.init(num_cpus=1, log_to_driver=False, runtime_env=dict(runtime_env))

    @skate.remote
    def see() -> tuple[str, list[str], str | None]:
        return os.getcwd(), sys.path, os.environ.get("VIRTUAL_ENV")

    directory, path, prefix = skate.get(see.remote())
    if prefix is not None and prefix != environ.get("VIRTUAL_ENV"):
        environ["VIRTUAL_ENV"] = prefix
        environ["PATH"] = os.pathsep.join([os.path.join(prefix, "bin"), environ["PATH"]])
    return directory, [*takewhile(lambda folder: folder not in sys.path, path)]
