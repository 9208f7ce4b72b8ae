"""A process that builds one environment, so that the driver never waits for pip.

    driver ── stdin: the request as a line of JSON; its end means that the driver is gone
           ◄─ stdout: {"python": path} or {"error": text}

What runs, in a process group that ends with the driver: `venv`, then pip (or uv, conda). pip sees
what the driver sees (`_PARENT` below), and installs what is missing or has another version. No
tool imports from the directory that it runs in: files there have any names, and may be anybody's.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from skate._core.requirements import Requirements
from skate.engine.local.environment_folders import (
    WORKING_DIR,
    EnvironmentFolder,
    site_folders,
    sweep_environments,
)

_PARENT = "_skate_parent.pth"  # adds the driver's packages behind the environment's own
_LAST_LINES = 20
_QUICK = ("--no-input", "--no-warn-conflicts")  # of what succeeds, nobody reads the warnings
_PIP_THAT_INSTALLS_ELSEWHERE = (22, 3)  # has the option --python
_VERSION = "import sys; print(*sys.version_info[:2], sys.implementation.name)"


class BuildRequest(NamedTuple):
    """What the driver asks for."""

    name: str  # of the folder
    wanted: list[Any]  # `Requirements`
    directory: str  # where relative paths begin
    variables: dict[str, str]  # for the tools, beyond those of the driver


class BuildError(Exception):
    """The environment cannot be had; the text says why."""


def main() -> None:
    """Build what standard input asks for, and say on standard output how that went."""
    line = sys.stdin.readline()
    threading.Thread(target=_end_with_the_driver, daemon=True).start()
    answers, sys.stdout = sys.stdout, sys.stderr
    try:
        answer = {"python": _build(BuildRequest(*json.loads(line)))}
    except BuildError as error:
        answer = {"error": str(error)}
    except Exception as error:  # whatever it is, nobody else would see it
        answer = {"error": _described(error)}
    print(json.dumps(answer), file=answers, flush=True)


def _described(error: Exception) -> str:
    import traceback

    where = "".join(traceback.format_tb(error.__traceback__)).rstrip().splitlines()
    return "\n".join([f"{type(error).__name__}: {error}", *where[-_LAST_LINES:]])


def _end_with_the_driver() -> None:
    sys.stdin.read()
    os.killpg(0, signal.SIGKILL)


def _build(request: BuildRequest) -> str:
    wanted = Requirements(*(_hashable(item) for item in request.wanted))
    environ = {**os.environ, **request.variables, WORKING_DIR: request.directory}
    if wanted.tool == "py_executable":
        return _checked(_which(wanted.packages[0]))
    if wanted.tool == "conda":
        return _conda(request, wanted.packages[0], environ)
    folder = EnvironmentFolder(request.name)
    with folder.building() as needed:
        if needed:
            python = _make_venv(folder.path)
            _install(folder.path, python, wanted, request.directory, environ)
            folder.complete(python)
    sweep_environments()
    return str(folder.interpreter)


def _hashable(item: object) -> Any:
    return tuple(item) if isinstance(item, list) else item


# -- pip and uv -----------------------------------------------------------------------------------


def _make_venv(path: str) -> str:
    """Return an environment without packages of its own that sees those of this process."""
    import venv

    venv.EnvBuilder(symlinks=True, with_pip=False).create(path)
    python = os.path.join(path, "bin", "python")
    where = _output([python, "-Ic", "import sysconfig; print(sysconfig.get_path('purelib'))"])
    lines = [f"import site; site.addsitedir({folder!r})\n" for folder in site_folders()]
    with open(os.path.join(where, _PARENT), "w") as file:
        file.writelines(lines)
    return python


def _install(
    path: str, python: str, wanted: Requirements, directory: str, environ: Mapping[str, str]
) -> None:
    requirements = os.path.join(path, "requirements.txt")
    with open(requirements, "w") as file:
        file.writelines(f"{line}\n" for line in wanted.packages)
    environ = {**environ, "PIP_USER": "0", "PIP_DISABLE_PIP_VERSION_CHECK": "1"}
    environ.pop("PIP_TARGET", None)

    def run(command: Sequence[str]) -> None:
        _run(command, directory, environ)

    if wanted.tool_version:
        tool = f"{wanted.tool}{wanted.tool_version}"
        run([*_pip(path, python, run), "install", *_QUICK, tool])
    uv = _uv(path, wanted)
    if uv is not None:
        at = ["--python", python]
        run([uv, "pip", "install", *at, "-r", requirements, *wanted.options])
        check = [uv, "pip", "check", *at]
    else:
        own = wanted.tool == "pip" and wanted.tool_version
        pip = [python, "-Im", "pip"] if own else _pip(path, python, run)
        run([*pip, "install", *_QUICK, "-r", requirements, *wanted.options])
        check = [*pip, "check"]
    if wanted.check:
        run(check)


def _uv(path: str, wanted: Requirements) -> str | None:
    """Find uv, where it is asked for, or where there is no pip."""
    import shutil

    if wanted.tool == "uv" and wanted.tool_version:
        return os.path.join(path, "bin", "uv")
    beside = os.path.join(os.path.dirname(sys.executable), "uv")
    found = beside if os.path.exists(beside) else shutil.which("uv")
    return found if wanted.tool == "uv" or _pip_version() is None else None


def _pip(path: str, python: str, run: Callable[[Sequence[str]], None]) -> list[str]:
    """Return the command that installs into the environment: the pip of this process, if it
    can."""
    if (_pip_version() or (0, 0)) >= _PIP_THAT_INSTALLS_ELSEWHERE:
        return [sys.executable, _place_of_pip(), "--python", python]
    if not os.path.exists(os.path.join(path, "bin", "pip")):
        run([python, "-Im", "ensurepip"])
    return [python, "-Im", "pip"]


def _place_of_pip() -> str:
    """Return the folder of the pip of this process, which can be run as a program."""
    from importlib.metadata import distribution

    return str(distribution("pip").locate_file("pip"))


def _pip_version() -> tuple[int, ...] | None:
    from importlib.metadata import PackageNotFoundError, version

    try:
        return tuple(int(part) for part in version("pip").split(".")[:2])
    except (PackageNotFoundError, ValueError):
        return None


# -- interpreters that exist, and conda -----------------------------------------------------------


def _which(name: str) -> str:
    import shutil

    found = shutil.which(name)
    if found is None:
        raise BuildError(f"runtime_env['py_executable'] is not an executable: {name!r}")
    return os.path.abspath(found)


def _checked(python: str) -> str:
    """Return the interpreter, if what is pickled here can be run there."""
    here = f"{sys.version_info[0]} {sys.version_info[1]} {sys.implementation.name}"
    there = _output([python, "-Ic", _VERSION])
    if there != here:
        raise BuildError(
            f"{python} is Python {there!r}, and this program runs on {here!r}: functions can "
            "travel between equal versions only"
        )
    return python


def _conda(request: BuildRequest, wanted: str, environ: Mapping[str, str]) -> str:
    import shutil

    if os.path.isabs(wanted):
        return _checked(os.path.join(wanted, "bin", "python"))
    conda = environ.get("CONDA_EXE") or shutil.which("conda") or shutil.which("mamba")
    if conda is None:
        raise BuildError(
            "runtime_env['conda'] needs conda, and neither CONDA_EXE nor PATH has it: install "
            "it, or ask for the packages with runtime_env['pip']"
        )
    if "\n" not in wanted and not wanted.startswith("{"):
        return _checked(os.path.join(_conda_folder(conda, wanted), "bin", "python"))
    folder = EnvironmentFolder(request.name)
    with folder.building() as needed:
        if needed:
            description = f"{folder.path}.yml"
            with open(description, "w") as file:
                file.write(wanted)
            command = [conda, "env", "create", "-p", folder.path, "-f", description]
            _run(command, request.directory, environ)
            folder.complete(_checked(os.path.join(folder.path, "bin", "python")))
    return str(folder.interpreter)


def _conda_folder(conda: str, name: str) -> str:
    known = json.loads(_output([conda, "env", "list", "--json"]))["envs"]
    for folder in known:
        if os.path.basename(folder) == name or (name == "base" and folder == known[0]):
            return str(folder)
    raise BuildError(f"conda has no environment {name!r}; it has {', '.join(known)}")


# -- running --------------------------------------------------------------------------------------


def _output(command: Sequence[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)
    except subprocess.CalledProcessError as error:
        raise BuildError(_failed(command, error.returncode, error.stderr)) from None
    return done.stdout.strip()


def _run(command: Sequence[str], directory: str, environ: Mapping[str, str]) -> None:
    done = subprocess.run(
        command, cwd=directory, env=environ, stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace",
    )  # fmt: skip
    if done.returncode:
        raise BuildError(_failed(command, done.returncode, done.stdout))


def _failed(command: Sequence[str], code: int, output: str) -> str:
    last = "\n".join(output.strip().splitlines()[-_LAST_LINES:])
    return f"{' '.join(command)} failed with exit code {code}:\n{last}"
