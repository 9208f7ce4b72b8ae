"""Instances that serve in the background, for programs that expect Ray's cluster below `serve`.

    program that runs by --as-ray
      └─ `serve start`, `serve deploy`  (commands that end at once)
           └─ an instance, until `serve shutdown`, `ray stop` or the end of that program

Ray's commands change a cluster that outlives them. Here, nothing outlives the program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from typing import Any

from skate._core.optional_imports import AS_RAY_PROGRAM
from skate._core.private_files import make_private_folder, own_state_folder

_START = """
import json, os, sys
settings = json.loads(sys.stdin.readline())
sys.path[:] = settings["path"]
from skate.cli._background import serve_until_the_end
serve_until_the_end(settings)
"""
_IS_UP = b"up\n"
_LOOK_SECONDS = 0.5  # how often it is seen whether the program has ended
_END_SECONDS = 30.0


def program_above() -> int | None:
    """Return the process of the program that runs by --as-ray, if this is a command of one."""
    number = os.environ.get(AS_RAY_PROGRAM, "")
    pid = int(number) if number.isdigit() else os.getpid()
    return pid if pid != os.getpid() and _is_alive(pid) else None


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass
    return True


# -- the commands' side -------------------------------------------------------------------------


def start_instance(http: Mapping[str, Any], grpc: Mapping[str, Any]) -> None:
    """Start an instance that lives as long as the program above.

    Args:
        http: The fields of its `HTTPOptions`.
        grpc: The fields of its `gRPCOptions`.

    Raises:
        RuntimeError: If it does not start; with what it has written.
    """
    make_private_folder(own_state_folder())
    log = os.path.join(own_state_folder(), f"serve-{program_above()}.log")
    settings = {"path": sys.path, "program": program_above(), "http": http, "grpc": grpc}
    with open(log, "wb") as written:
        process = subprocess.Popen(
            [sys.executable, "-c", _START], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            stderr=written, start_new_session=True,
        )  # fmt: skip
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        process.stdin.write(json.dumps(settings).encode() + b"\n")
        process.stdin.flush()
        is_up = process.stdout.readline() == _IS_UP
    if not is_up:
        with open(log, errors="replace") as found:
            raise RuntimeError(f"serving could not be started: {found.read().strip()}")


def own_ports() -> Iterator[int]:
    """Find the instances that were started for the program above."""
    from skate.serve._http.control_socket import ask, known_ports
    from skate.serve.exceptions import SkateServeError

    program = program_above()
    for port in known_ports() if program is not None else ():
        try:
            if ask(port, "program") == program:
                yield port
        except (ConnectionError, SkateServeError):
            pass  # it is ending, or of another version of skate


def port_of_instance(port: int) -> int:
    """Return the port where an instance answers: this, or else that of one of the program's."""
    from skate.serve._http.control_socket import known_ports

    return port if port in known_ports() else next(own_ports(), port)


def stop_instances() -> int:
    """End all that were started for the program above; return how many."""
    ports = list(own_ports())
    for port in ports:
        end_instance(port)
    return len(ports)


def end_instance(port: int) -> None:
    """End an instance, and return when its port is free."""
    from skate.serve._http.control_socket import ask, known_ports

    ask(port, "shut_down")
    latest = time.monotonic() + _END_SECONDS
    while port in known_ports() and time.monotonic() < latest:
        time.sleep(0.02)


# -- the instance -------------------------------------------------------------------------------


def serve_until_the_end(settings: Mapping[str, Any]) -> None:
    """Serve until somebody says that it is over, or the program has ended."""
    import skate
    from skate import serve
    from skate.serve import _client

    said = os.dup(1)
    os.dup2(2, 1)  # what replicas print goes to the log: whoever reads the rest is gone soon
    program = int(settings["program"])
    os.environ[AS_RAY_PROGRAM] = str(program)
    serve.start(http_options=settings["http"], grpc_options=settings["grpc"])
    os.write(said, _IS_UP)
    os.close(said)
    end = _client.connect().controller.until_shut_down.remote()
    while _is_alive(program) and not skate.wait([end], timeout=_LOOK_SECONDS)[0]:
        pass
    serve.shutdown()
    skate.shutdown()
