"""Fork servers as the driver uses them: started when needed, replaced when they die."""

from __future__ import annotations

import marshal
import os
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from skate.engine.local import forkserver
from skate.engine.local.hub.workers import WorkerProcess

# Modules worth having in the warm server, and safe to fork after. TensorFlow is: its runtime
# starts with the first operation, not with the import. JAX is not here: it starts threads that a
# fork would lose.
_ALIAS = ("skate.compat.ray", "skate.compat.parts.top")  # for `import ray`: in every server
_QUICK = ("numpy", "pyarrow", "PIL", "polars", "skate.tune.execution.worker")
_SLOW = (
    "pandas", "scipy", "sklearn", "torch", "torchvision", "xgboost", "lightgbm", "transformers",
    "lightning", "pytorch_lightning", "datasets", "numba", "tensorflow",
    "skate.data._execution.stages", "skate.data._execution.split_coordinator",
    "skate.data.iterator", "skate.train._workers.worker", "skate.train.torch",
    "skate.train.lightning", "skate.train.xgboost", "skate.train.lightgbm",
    "skate.train.sklearn", "skate.train.huggingface.transformers",
    "dask.array", "dask.dataframe", "skate.util.dask", "skate.serve._controller",
    "skate.serve._replica.actor", "fastapi",
)  # fmt: skip
_PARTS = ("torch.optim",)  # of the slow ones, of which the first use imports as much again
_SERVING = (
    "skate.serve._http.replica_app", "starlette.requests", "starlette.responses",
    "uvicorn.protocols.http.auto", "uvicorn.protocols.websockets.auto",
)  # fmt: skip
# What a module in use will import only when it is first called: cheaper once than in each worker.
_IMPORTED_LATER = {
    "skate.data.iterator": ("skate.data._execution.stages",),
    "skate.serve._controller": (
        "skate.serve._controller.actor",
        "skate.serve._http.control_socket",
        "skate.serve._http.port_owner",
    ),
    "skate.serve._replica.actor": _SERVING,
    "skate.train.huggingface.transformers": (
        "transformers.trainer",
        "transformers.modeling_utils",
    ),
    "torch.optim": ("torch._dynamo",),  # by the first optimiser of a process
}
# The same, but as slow as the module itself: the first workers should not have to wait for it.
_IMPORTED_WHEN_IDLE = {
    "skate.train.torch": ("torch._dynamo",),  # for DistributedDataParallel
    # pyarrow asks it about the first list that it gets.
    "skate.data._execution.stages": ("pandas",),
    "skate.serve._controller": _SERVING,
}
# Quick enough for the light server, though not in each of many workers.
_OWN = ("skate.tune.execution.worker",)
_SLOWEST = ("tensorflow",)  # nobody should wait for it who does not use it
_CONTROL_DESCRIPTOR = 3  # of the control socket, in a server
_END_SECONDS = 1.0  # for a server that is to end
# OpenBLAS's threads look for work for so many cycles (a power of 2) before they sleep, by default
# for as long as NumPy's import takes: beside the program's own imports they would take turns.
_SHORT_SPINS = {"OPENBLAS_THREAD_TIMEOUT": "20"}
_MOST_UNDER_WAY = 32  # requests that a server has and has not answered; many more would not fit
WARM_UP_SECONDS = 0.3  # after the first worker; shorter programs need no warm server


class Interpreter(NamedTuple):
    """A Python with packages of its own, for workers that ask for it."""

    executable: str
    prefix: str  # the folder of its environment


def _python_of(interpreter: Interpreter | None) -> str:
    """Return the path of an interpreter; None is that of this process."""
    return sys.executable if interpreter is None else interpreter.executable


def environ_of_servers() -> dict[str, str]:
    """Return the environment that a server begins with; its workers have the driver's."""
    return {**_SHORT_SPINS, **os.environ}


def _spawn(command: list[str], control: int) -> int:
    """Start a server, whose end of the control socket is `control` here, and return its pid."""
    return os.posix_spawn(
        command[0],
        command,
        environ_of_servers(),
        file_actions=[
            (os.POSIX_SPAWN_DUP2, control, _CONTROL_DESCRIPTOR),
            (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        ],
        setpgroup=0,  # Ctrl-C is for the driver
    )


class ForkRequests:
    """Requests for workers, on their way to one server: a few at a time, so that sending never
    has to wait, however long the server is busy."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._waiting: deque[WorkerProcess] = deque()
        self._under_way = 0

    def add(self, worker: WorkerProcess) -> None:
        self._waiting.append(worker)

    def withdraw(self, worker: WorkerProcess) -> bool:
        """Take back a request; False if it was sent."""
        try:
            self._waiting.remove(worker)
        except ValueError:
            return False
        return True

    def answered(self) -> None:
        self._under_way -= 1

    def send(self) -> tuple[WorkerProcess, OSError] | None:
        """Send what can go now. Returns what cannot go and has nothing to wait for."""
        while self._waiting and self._under_way < _MOST_UNDER_WAY:
            try:
                _send_request(self._control, self._waiting[0])
            except OSError as error:
                if self._under_way or isinstance(error, BlockingIOError):
                    return None  # an answer will come, and make room for it, or the server's end
                return self._waiting.popleft(), error
            self._waiting.popleft()
            self._under_way += 1
        return None


def _send_request(control: socket.socket, worker: WorkerProcess) -> None:
    launch = worker.launch
    assert launch is not None
    packet = marshal.dumps((forkserver.FORK, worker.number))
    details = os.memfd_create("skate-settings")  # an environment may exceed a packet
    try:
        os.write(details, marshal.dumps(launch.settings))
        socket.send_fds(control, [packet], [details, launch.socket.fileno(), *launch.outputs])
    finally:
        os.close(details)


class ForkServer:
    """One server process, by its control socket."""

    def __init__(
        self,
        session_dirs: list[str],
        preload: list[str],
        later: list[str] | None = None,
        interpreter: Interpreter | None = None,
    ) -> None:
        self.interpreter = interpreter  # None: that of this process
        self.preload: list[str]
        self.preload = preload = [*_in_use(_ALIAS), *preload]
        self.busy: int = 1  # imports under way, the first ones included
        self.dead: bool = False
        self._collected = False  # its exit status: its pid may be another's from then on
        self.workers: dict[int, WorkerProcess] = {}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.control: socket.socket = ours
        self.control.setblocking(False)
        self.requests: ForkRequests = ForkRequests(self.control)
        around = forkserver.path_around() if interpreter is not None else None
        python, fd = _python_of(interpreter), _CONTROL_DESCRIPTOR
        try:
            command = forkserver.command(python, around, fd, session_dirs, preload, later or [])
            self.pid: int = _spawn(command, theirs.fileno())
        except BaseException:
            self.control.close()
            raise
        finally:
            theirs.close()

    @property
    def ready(self) -> bool:
        """Return whether it would fork at once."""
        return not self.busy

    def also_import(self, names: list[str]) -> None:
        """Import what came into use since the server started. Importing everything anew in
        another one would take as long as the first time."""
        new = [name for name in names if name not in self.preload]
        if new:
            self.preload += new
            try:
                self.control.send(marshal.dumps((forkserver.IMPORT, new)))
                self.busy += 1
            except OSError:  # it is gone, as the hub will notice
                pass

    def serve_session(self, dirs: list[str], later: list[str]) -> None:
        """Belong to a session, if it was started before there was one, and import `later` when
        that leaves time for it. Raises OSError if it is gone."""
        self.control.send(marshal.dumps((forkserver.SESSION, (dirs, later))))

    def kill(self, worker: WorkerProcess) -> None:
        """End a worker whose pid is not known here yet."""
        try:
            self.control.send(marshal.dumps((forkserver.KILL, worker.number)))
        except OSError:
            pass

    def receive(self) -> list[tuple[Any, ...]] | None:
        """Return what the server tells, or None when it is gone."""
        messages: list[tuple[Any, ...]] = []
        while True:
            try:
                data = self.control.recv(65536)
            except BlockingIOError:
                return messages
            except ConnectionResetError:  # it left requests unread; what it told is still there
                continue
            except OSError:
                data = b""
            if not data:
                return messages or None
            messages.append(marshal.loads(data))

    def reap(self) -> None:
        """Collect the exit status of the server process."""
        try:
            os.waitpid(self.pid, 0)
        except ChildProcessError:  # the program waits for all its children by itself
            pass
        self._collected = True

    def close(self) -> None:
        self.dead = True
        self.control.close()

    def end_at_once(self) -> None:
        """End it without its farewell, which would take the files of the session along."""
        if self._collected:
            return
        if not (gone := self._has_ended()):
            os.kill(self.pid, signal.SIGKILL)  # before it sees that this end is closed
        self.close()
        if not gone:
            self.reap()

    def stop(self) -> None:
        """End it. A server that is up ends its workers and collects them, so that none is left
        as a zombie; one that still imports, which may take seconds, may have none yet."""
        self.close()
        has_forked = any(worker.pid > 0 for worker in self.workers.values())
        if not (self.ready or has_forked) or not self._exits_within(_END_SECONDS):
            self.end_at_once()

    def _exits_within(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self._has_ended():
                return True
            time.sleep(0.001)
        return False

    def _has_ended(self) -> bool:
        """Return whether it is gone, and collect its exit status if the program has not, which
        may wait for all its children: the pid may be another's from then on."""
        try:
            self._collected = bool(os.waitpid(self.pid, os.WNOHANG)[0])
        except ChildProcessError:
            self._collected = True
        return self._collected


class Servers:
    """The light server, and the warm one while it is worth it; both for each interpreter."""

    def __init__(
        self,
        session_dirs: list[str],
        preload: list[str],
        light: ForkServer | None,
        warm: ForkServer | None,
    ) -> None:
        self._session_dirs = session_dirs
        self._asked_preload = preload
        self._light: dict[Interpreter | None, ForkServer] = {} if light is None else {None: light}
        self._warm: dict[Interpreter | None, ForkServer] = {} if warm is None else {None: warm}
        self._started = [*self._light.values(), *self._warm.values()]
        self._watch: Callable[[ForkServer], None] = lambda server: None

    def watch(self, watch: Callable[[ForkServer], None]) -> None:
        """Call `watch` with every server, those that run already included."""
        self._watch = watch
        for server in self._started:
            watch(server)

    def all(self) -> list[ForkServer]:
        """Return those that live, also superseded ones that still have workers."""
        return [server for server in self._started if not server.dead]

    def forget(self, server: ForkServer) -> None:
        self._started.remove(server)

    def choose(
        self, wants: Callable[[list[str]], bool], interpreter: Interpreter | None = None
    ) -> ForkServer:
        """Return the server to fork from. `wants(modules)`: does the work use any of these?

        Work that needs what is slow to import waits until the warm server has that (importing it
        in several workers side by side takes longer). Other work uses it only when it is ready.
        """
        slow = _in_use((*_SLOW, *_PARTS))
        needed = [name for name in (*self._asked_preload, *slow) if wants([name])]
        if needed:
            server = self.warm_up(needed, interpreter)
            assert server is not None
            return server
        warm = self._warm.get(interpreter)
        if warm is not None and warm.ready and not warm.dead:
            return warm
        light = self._light.get(interpreter)
        if light is None or light.dead:
            self._light[interpreter] = light = self._start([], interpreter=interpreter)
        light.also_import([name for name in _in_use(_OWN) if wants([name])])
        return light

    def is_warm(self) -> bool:
        """Return whether there is a warm server, which imports what is missing when it is idle."""
        warm = self._warm.get(None)
        return warm is not None and not warm.dead

    def slow_in_use(self) -> bool:
        """Return whether this process uses something that takes long to import."""
        return bool(self._asked_preload or _in_use(_SLOW))

    def warm_up(
        self, needed: Sequence[str] | None = None, interpreter: Interpreter | None = None
    ) -> ForkServer | None:
        """Have a warm server with what is needed (by default nearly all that this process uses
        now); it imports the rest when it is idle, except for what would keep others waiting.
        None if there is nothing that it could have imported."""
        modules, later = imports_for(needed, self._asked_preload)
        if not modules:
            return None
        warm = self._warm.get(interpreter)
        if warm is None or warm.dead:
            self._warm[interpreter] = warm = self._start(modules, later, interpreter)
        else:
            warm.also_import(modules)
        return warm

    def _start(
        self,
        preload: list[str],
        later: list[str] | None = None,
        interpreter: Interpreter | None = None,
    ) -> ForkServer:
        server = ForkServer(self._session_dirs, preload, later, interpreter)
        self._started.append(server)
        self._watch(server)
        return server


def imports_for(
    needed: Sequence[str] | None, asked: Sequence[str] = ()
) -> tuple[list[str], list[str]]:
    """Return what a server for work that needs these modules imports, at once and when it is
    idle; by default nearly all that this process uses now."""
    slow = _in_use(_SLOW)
    if needed is None:
        needed = [*asked, *(name for name in slow if name not in _SLOWEST)]
    at_once = [*_in_use(_QUICK), *needed]
    at_once += [name for module in needed for name in _IMPORTED_LATER.get(module, ())]
    modules = list(dict.fromkeys(at_once))
    idle = [n for module in (*slow, *needed) for n in _IMPORTED_WHEN_IDLE.get(module, ())]
    later = [name for name in (*slow, *idle) if name not in (*modules, *_SLOWEST)]
    return modules, list(dict.fromkeys(later))


def _in_use(names: tuple[str, ...]) -> list[str]:
    return [name for name in names if name in sys.modules]
