"""The process that has slow packages imported, and forks programs: see `tests.warm`.

    python nursery.py CLIENT LISTENER UNTIL

accepts what CLIENT, the path of a Python, asks for at the socket LISTENER, until the descriptor
UNTIL is closed at its other end.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import marshal
import os
import runpy
import select
import signal
import socket
import sys
import tempfile
import threading
import warnings
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from skate._core.tensorflow_processes import tensorflow_runs

_RESERVED = 512  # descriptors below are free in programs, for those that they are given

# What programs import later, when they make an optimiser or a trainer or read rows.
_WITH = {
    "torch": (
        "torch._dynamo", "torch.distributed", "pandas", "polars", "pyarrow", "skate.train.torch",
        "skate.data._execution.stages", "skate.data._execution.split_coordinator",
        "skate.data.iterator",
    ),
    "transformers": ("transformers.trainer", "transformers.modeling_utils"),
    "lightning": ("lightning.pytorch",),
    "keras": ("tensorflow",),
    "tf_keras": ("tensorflow",),
}  # fmt: skip


class Request(NamedTuple):
    """A program as its client was started."""

    packages: list[str]
    command: list[str]
    unbuffered: bool
    environment: dict[str, str]
    folder: str
    descriptors: list[int]


class Nursery:
    """Forks programs, tells how they end, and ends them with their clients."""

    def __init__(self, listener: socket.socket, until_closed: int) -> None:
        self._path = sys.path[1:]  # without the folder of this file
        self._programs: dict[int, socket.socket] = {}  # pid -> client
        self._until_closed = until_closed
        self._listener = listener
        self._ends, self._wakeup = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(self._wakeup, warn_on_full_buffer=False)

    def serve(self) -> Request:
        """Return in a child that is to become a program."""
        while True:
            clients = {client.fileno(): pid for pid, client in self._programs.items()}
            watched = [self._until_closed, self._ends, self._listener.fileno(), *clients]
            for fd in select.select(watched, [], [])[0]:
                if fd == self._until_closed:
                    self._end()
                elif fd == self._ends:
                    os.read(fd, 4096)
                    self._reap()
                elif fd in clients:
                    self._client_is_gone(clients[fd])
                elif request := self._accept():
                    return request

    def _accept(self) -> Request | None:
        client, _ = self._listener.accept()
        size, given, _, _ = socket.recv_fds(client, 8, 250)
        data = bytearray()
        while len(data) < int.from_bytes(size, "big"):
            data += client.recv(1 << 20) or b"\0"
        request = Request(*marshal.loads(bytes(data)))
        _import(request.packages)
        pid = os.fork()
        if pid == 0:
            for other in (self._listener, client, *self._programs.values()):
                other.close()
            self._become(request, given)
            return request
        for fd in given:
            os.close(fd)
        self._programs[pid] = client
        with contextlib.suppress(OSError):  # it is gone, as will be seen
            client.sendall(pid.to_bytes(4, "big"))
        return None

    def _become(self, request: Request, given: list[int]) -> None:
        """Have the surroundings of the program in this process."""
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        os.closerange(0, _RESERVED)
        for fd in (self._until_closed, self._ends, self._wakeup):
            os.close(fd)
        for fd, target in zip(given, request.descriptors, strict=True):
            os.dup2(fd, target)
            os.close(fd)
        os.chdir(request.folder)
        os.environ.clear()
        os.environ.update(request.environment)
        tempfile.tempdir = None
        own = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        sys.path[:] = [path for path in own if path] + self._path
        if numpy := sys.modules.get("numpy"):
            numpy.random.seed()
        if (torch := sys.modules.get("torch")) and "OMP_NUM_THREADS" in os.environ:
            torch.set_num_threads(int(os.environ["OMP_NUM_THREADS"]))

    def _reap(self) -> None:
        with contextlib.suppress(ChildProcessError):
            while (ended := os.waitpid(-1, os.WNOHANG)) != (0, 0):
                pid, status = ended
                if client := self._programs.pop(pid, None):
                    with contextlib.suppress(OSError):
                        client.sendall(status.to_bytes(4, "big"))
                    client.close()

    def _client_is_gone(self, pid: int) -> None:
        """End a program whose client was killed."""
        if client := self._programs.pop(pid, None):  # else it has just ended
            client.close()
            _kill(pid)

    def _end(self) -> None:
        for pid in self._programs:
            _kill(pid)
        with contextlib.suppress(ChildProcessError):
            while True:
                os.wait()
        os._exit(0)


def _kill(pid: int) -> None:
    for kill in (os.kill, os.killpg):  # it may not have its group yet
        with contextlib.suppress(ProcessLookupError):
            kill(pid, signal.SIGKILL)


def _import(packages: list[str]) -> None:
    """Import packages, if they are there: programs that lack one say so themselves."""
    new = [package for package in packages if package not in sys.modules]
    for package in new:
        for name in (package, *_WITH.get(package, ())):
            with contextlib.suppress(ImportError), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                importlib.import_module(name)
    if new:
        gc.collect()
        gc.freeze()  # programs should not touch, and so copy, the pages that are shared
        threads = {thread.name for thread in threading.enumerate()} - {"MainThread"}
        assert not threads, f"{new} started {threads}, which forks would lack"
        assert not tensorflow_runs(), f"{new} started TensorFlow, which does not survive forks"


def _run(request: Request) -> None:
    """Do what `python` would do with these arguments."""
    if request.unbuffered:
        sys.stdout.reconfigure(write_through=True)  # type: ignore[union-attr]
    program, *sys.argv = request.command
    main = sys.modules["__main__"] = ModuleType("__main__")
    main.__dict__["__builtins__"] = __builtins__
    if program == "-m":
        sys.path.insert(0, os.getcwd())
        runpy._run_module_as_main(sys.argv[0])
    elif program == "-c":
        sys.path.insert(0, "")
        source, sys.argv[0] = sys.argv[0], "-c"
        exec(compile(source, "<string>", "exec"), main.__dict__)
    else:
        sys.argv.insert(0, program)
        sys.path.insert(0, os.path.dirname(os.path.realpath(program)))
        main.__file__ = os.path.abspath(program)
        exec(compile(Path(program).read_bytes(), main.__file__, "exec"), main.__dict__)


if __name__ == "__main__":
    sys.executable, listener, until_closed = sys.argv[1:]
    while os.dup(0) < _RESERVED - 1:
        pass
    with socket.socket(fileno=int(listener)) as low:
        nursery = Nursery(low.dup(), os.dup(int(until_closed)))
    _run(nursery.serve())
