"""Python whose slow imports are done: programs and fork servers of tests are forked from it.

    test ── posix_spawn ──► client.py (as `sys.executable`) ── Unix socket ──► nursery.py ── fork
            its pid, its     sends arguments, environment,      has torch and others imported,
            exit code        descriptors; waits for the end     becomes the program in the child

Importing torch, Lightning or TensorFlow takes seconds of a processor, in each program and once
more in the fork servers of its sessions. Here each test process imports them once. What runs is
the same: an own process, with a `__main__`, environment, folder and descriptors of its own.

Programs that mention none of the packages, or are started with options, run by Python as it is.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.support import PATIENCE, Program
from tests.warm.client import before_begin

_HERE = Path(__file__).parent
SOURCES = Path(__file__).parents[2] / "src"
KINDS = ("torch", "tensorflow")  # which do not know of each other: both in one would cost more


def is_measured() -> bool:
    """Return whether lines are counted, which begins with an interpreter."""
    return any(name.startswith("COVERAGE_") for name in os.environ)


@contextmanager
def warm_python() -> Iterator[str]:
    """Yield the path of a Python with imports done, which ends with the `with`."""
    forked_from_one = Path(sys.executable).with_name(KINDS[0]).is_socket()
    if forked_from_one or is_measured() or sys.platform != "linux":
        yield sys.executable
        return
    with tempfile.TemporaryDirectory(prefix="warm-") as place:
        client = Path(place, "python")
        client.write_text(
            f"#!{sys.executable} -IS\n"
            f"PYTHON, PLACE = {sys.executable!r}, {place!r}\n"
            f"BEGUN_WITH = {before_begin(dict(os.environ))!r}\n"
            f"{(_HERE / 'client.py').read_text()}"
        )
        client.chmod(0o700)
        read_end, write_end = os.pipe()  # closed when this process ends, however it does
        nurseries = [_start(client, kind, read_end) for kind in KINDS]
        os.close(read_end)
        try:
            yield str(client)
        finally:
            os.close(write_end)
            for nursery in nurseries:
                nursery.wait(PATIENCE)


def _start(client: Path, kind: str, until_closed: int) -> Program:
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(client.with_name(kind)))
        listener.listen(64)
        given = (listener.fileno(), until_closed)
        nursery = Program(
            [sys.executable, _HERE / "nursery.py", client, *map(str, given)],
            env={**os.environ, "PYTHONPATH": str(SOURCES), "TF_CPP_MIN_LOG_LEVEL": "3"},
            stdin=subprocess.DEVNULL,
            pass_fds=given,
        )
    nursery.outlive_tests()
    return nursery
