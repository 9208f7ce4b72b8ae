"""The process that has imports done, and becomes fork servers: see `tests.warm.forked_servers`.

    python server_nursery.py SOCKET TITLE

imports skate, and what modules of tests import and so each of their workers, and forks a server
for each request at the descriptor SOCKET, until that is closed at its other end. TITLE makes room
for the titles that processes give themselves: they are written over the command line.
"""

from __future__ import annotations

import ctypes
import gc
import importlib
import marshal
import os
import resource
import signal
import socket
import sys
import tempfile
from types import ModuleType

_RESERVED = 100  # descriptors below are free in servers, for those that they are given
CLONE = {"x86_64": 56, "aarch64": 220}  # the number of the system call, by machine
_IMPORTS = (
    "skate.engine.local.forkserver", "skate.engine.local.worker_main", "pytest", "tests.support",
)  # fmt: skip
_CLONE_PARENT = 0x8000  # of <linux/sched.h>


def main() -> None:
    with socket.socket(fileno=int(sys.argv[1])) as low:
        while (high := low.dup()).fileno() < _RESERVED:
            high.detach()
        os.closerange(3, _RESERVED)
        low.detach()
    os.setpgid(0, 0)  # Ctrl-C is for the tests
    _import()
    while True:
        packet, descriptors, _, _ = socket.recv_fds(high, 1, 16)
        if not packet:
            return
        with open(descriptors[0], "rb", closefd=False) as file:
            file.seek(0)
            request = marshal.load(file)
        pid = _fork_sibling()
        if pid == 0:
            high.close()
            _become(request, descriptors)
            return
        for fd in descriptors:
            os.close(fd)
        high.send(pid.to_bytes(4, "big"))


def _import() -> None:
    os.environ["SPT_NOENV"] = "1"  # as a fork server does it
    try:
        import setproctitle

        setproctitle.getproctitle()  # it looks for the command line the first time
    finally:
        del os.environ["SPT_NOENV"]
    for name in _IMPORTS:
        importlib.import_module(name)
    gc.collect()
    gc.freeze()


def _fork_sibling() -> int:
    """Fork a child of this process's parent, who can wait for it; returns 0 there.

    There is one thread, and no library with locks or threads of its own: nothing is missing that
    the C library's `fork` would do.
    """
    python, system = ctypes.pythonapi, ctypes.PyDLL(None)
    python.PyOS_BeforeFork()
    pid: int = system.syscall(
        CLONE[os.uname().machine], _CLONE_PARENT | signal.SIGCHLD, 0, 0, 0, 0
    )
    if pid == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError("a fork server could not be forked")
    return pid


def _become(
    request: tuple[str, dict[str, str], str, list[int], tuple[int, int]], given: list[int]
) -> None:
    """Be `python -c PROGRAM` in these surroundings."""
    program, environment, folder, processors, files = request
    os.setpgid(0, 0)
    os.close(0)
    os.open(os.devnull, os.O_RDONLY)
    _, *others = given
    for target, fd in enumerate(others, start=1):
        os.dup2(fd, target)
    os.closerange(len(others) + 1, _RESERVED)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    os.sched_setaffinity(0, processors)
    resource.setrlimit(resource.RLIMIT_NOFILE, files)
    tempfile.tempdir = None
    sys.argv[:] = ["-c"]
    main = sys.modules["__main__"] = ModuleType("__main__")
    exec(program, main.__dict__)


if __name__ == "__main__":
    main()
