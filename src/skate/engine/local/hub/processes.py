"""Worker processes: starting them, talking to them, noticing that they are gone."""

from __future__ import annotations

import os
import signal
import socket
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import ray_is_skate
from skate.engine.local import forkserver, open_files
from skate.engine.local import messages as m
from skate.engine.local.hub.births import Births
from skate.engine.local.hub.servers import WARM_UP_AFTER, ForkServer, Servers
from skate.engine.local.hub.work import Task
from skate.engine.local.hub.workers import Birth, Environment, Worker
from skate.engine.local.objects import new_process_number
from skate.engine.local.wire import Connection, Message
from skate.exceptions import RuntimeEnvSetupError

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.hub.environments import (
        Environments,
        Outcome,
        WantedEnvironment,
        WhenDone,
    )

_GRACE = 5.0  # seconds for a worker that was asked to exit
_IDLE = 1.0  # seconds after which a worker that is not needed ends
_LOOK = 0.05  # seconds between two looks at a worker whose socket is closed,
_LOOKS = 10  # and how many, before it is taken for dead
_GARBLED = (ValueError, TypeError, EOFError)  # someone else wrote into a worker's socket


class Processes:
    """The workers of a session."""

    def __init__(
        self, engine: LocalEngine, settings: dict[str, Any], servers: Servers, outputs: list[int]
    ) -> None:
        self.workers: dict[int, Worker] = {}
        self.urgent = False  # something was sent that must not wait for company
        self._engine = engine
        self._reactor = engine.reactor
        # The driver needs many; programs in workers find what they would find without skate.
        self._open_files = open_files.allow_many()
        self._settings = {**settings, "open_files": self._open_files}
        self._outputs = outputs  # where workers' own stdout and stderr go
        self._servers = servers
        self._births = Births(servers, self.later, self._gone)
        self._environments: Environments | None = None  # once someone asks for another one
        servers.watch(self._watch_server)
        self._tidying = False
        self._warming = False
        # What takes seconds to import begins while the program prepares its first work.
        self._reactor.call_later(WARM_UP_AFTER, self._warm_up_if_slow)

    # -- starting ------------------------------------------------------------------------------

    def start(self, environment: Environment, task: Task) -> Worker:
        """A new worker. It can be sent messages at once; they wait until it is up. Raises
        OSError if this process cannot have another one."""
        if not self._warming:
            self._warming = True
            self._reactor.call_later(WARM_UP_AFTER, self._warm_up)
        ours, theirs = socket.socketpair()
        worker = Worker(new_process_number(), environment, Connection(ours))
        settings = {
            **self._settings,
            **dict(environment),
            "environ": dict(os.environ),
            "cwd": _cwd(),
            "titles": "ray" if ray_is_skate() else "skate",
            "sys_path": [os.fspath(path) for path in sys.path],
        }
        worker.birth = Birth(settings, theirs, self._outputs, task.uses_any)
        self.workers[worker.number] = worker
        self._reactor.add(ours.fileno(), lambda: self._readable(worker))
        wanted = settings.pop("wants", None)
        if wanted is None:
            self._births.begin(worker)
        else:
            self.find_environment(wanted, lambda outcome: self._begin_there(worker, outcome))
        return worker

    def find_environment(self, wanted: WantedEnvironment, when_done: WhenDone) -> None:
        """Have an environment with packages of its own; `when_done` is told, now or later."""
        if self._environments is None:
            from skate.engine.local.hub.environments import Environments

            self._environments = Environments(self._reactor, self.later)
        self._environments.find(wanted, when_done)

    def _begin_there(self, worker: Worker, outcome: Outcome) -> None:
        """Start the worker on the interpreter that was found for it, unless there is none."""
        birth = worker.birth
        if birth is None:  # it was given up meanwhile
            return
        if isinstance(outcome, RuntimeEnvSetupError):
            worker.failure = outcome
            self.later(0, lambda: self._gone(worker))
            return
        birth.interpreter = outcome
        birth.settings["prefix"] = outcome.prefix
        birth.settings["path_around"] = forkserver.path_around()
        self._births.begin(worker)

    def later(self, delay: float, callback: Callable[[], None]) -> None:
        """Call with the engine's lock held, after `delay` seconds."""

        def call() -> None:
            with self._engine.lock:
                callback()

        self._reactor.call_later(delay, call)

    def _warm_up_if_slow(self) -> None:
        if self._servers.slow_in_use():
            self._warm_up()

    def _warm_up(self) -> None:
        with self._engine.lock, suppress(OSError):  # who needs it will try, and say why not
            self._servers.warm_up()

    # -- talking -------------------------------------------------------------------------------

    def send(self, worker: Worker, message: tuple[Any, ...], at_once: bool = True) -> None:
        """Send one of `messages`: at once, or with others soon."""
        self.write(worker, m.encode(message), at_once)

    def write(self, worker: Worker, message: Message, at_once: bool) -> None:
        """The same, of a message that is encoded already."""
        self._reactor.collect(worker.connection, message)
        if at_once:
            self.urgent = True

    def steal(self, worker: Worker) -> None:
        self.send(worker, m.StealWork())

    def _readable(self, worker: Worker) -> None:
        with self._engine.lock:
            if worker.number not in self.workers:
                return
            received = self._receive(worker)
            if received is None:
                self._hung_up(worker)
            else:
                self._engine.hub.received(worker, received)

    def _receive(self, worker: Worker) -> list[Message] | None:
        try:
            return worker.connection.receive()
        except _GARBLED:
            self.kill(worker)
            return None

    # -- ending --------------------------------------------------------------------------------

    def kill(self, worker: Worker) -> None:
        """End it now, with what it has started."""
        worker.doomed = worker.doomed or "killed"
        if worker.pid > 0:
            try:
                os.killpg(worker.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        elif not self._births.withdraw(worker):
            worker.server.kill(worker)

    def retire(self, worker: Worker) -> None:
        """Ask it to exit; insist after a while."""
        worker.doomed = worker.doomed or "not needed any more"
        self.send(worker, m.ExitWorker())
        self._reactor.call_later(_GRACE, lambda: self._insist(worker))

    def _insist(self, worker: Worker) -> None:
        with self._engine.lock:
            if worker.number in self.workers:
                self.kill(worker)

    def tidy_later(self) -> None:
        """Workers are idle: look in a while whether they still are."""
        if not self._tidying and self._engine.hub.scheduler.has_surplus():
            self._tidying = True
            self._reactor.call_later(_IDLE, self._tidy)

    def _tidy(self) -> None:
        with self._engine.lock:
            self._tidying = False
            scheduler = self._engine.hub.scheduler
            for worker in scheduler.surplus(time.monotonic() - _IDLE * 0.9):
                self.retire(worker)
            self.tidy_later()

    def _hung_up(self, worker: Worker) -> None:
        """Its socket is closed. The server will say how it ended, unless it is gone too."""
        self._reactor.remove(worker.connection.fileno())
        if worker.status is not None or worker.server is None or worker.server.dead:
            self._gone(worker)
        else:
            self._look_for_its_end(worker, looks=_LOOKS)

    def _look_for_its_end(self, worker: Worker, looks: int) -> None:
        """A server that is in the middle of an import tells nothing for seconds."""
        worker.status = _status_of_zombie(worker.pid)
        if worker.status is not None or not looks:
            self.kill(worker)  # what it has started itself goes with it
            self._gone(worker)
        else:
            self._reactor.call_later(_LOOK, lambda: self._look_again(worker, looks - 1))

    def _look_again(self, worker: Worker, looks: int) -> None:
        with self._engine.lock:
            if worker.number in self.workers:
                self._look_for_its_end(worker, looks)

    def _gone(self, worker: Worker) -> None:
        if self.workers.pop(worker.number, None) is None:
            return
        worker.forget_birth()
        if worker.server is not None:
            worker.server.workers.pop(worker.number, None)
        self._reactor.remove(worker.connection.fileno())
        worker.connection.close()
        self._engine.hub.worker_lost(worker)
        self._engine.remove_free_segments(worker.number)

    # -- fork servers --------------------------------------------------------------------------

    def _watch_server(self, server: ForkServer) -> None:
        self._reactor.add(server.control.fileno(), lambda: self._server_readable(server))

    def _server_readable(self, server: ForkServer) -> None:
        with self._engine.lock:
            received = server.receive()
            if received is None:
                self._server_lost(server)
                return
            for operation, *rest in received:
                if operation == forkserver.READY:
                    server.busy -= 1
                    self._births.send(server)
                elif operation == forkserver.BUSY:
                    server.busy += 1
                elif operation == forkserver.FORKED:
                    number, pid = rest
                    self._births.forked(server, self.workers.get(number), pid)
                elif operation == forkserver.EXITED:
                    self._exited(*rest)

    def _exited(self, number: int, status: int) -> None:
        worker = self.workers.get(number)
        if worker is None:
            return
        if worker.birth is not None:
            self._births.died(worker)
            return
        worker.status = status
        # Read what it had still written. Not until end of file: a child of its own may have
        # kept the socket open.
        try:
            for received in worker.connection.drain():
                self._engine.hub.received(worker, received)
        except _GARBLED:
            pass
        self._gone(worker)

    def _server_lost(self, server: ForkServer) -> None:
        """Its workers live on, and notice by themselves when the driver goes."""
        self._reactor.remove(server.control.fileno())
        server.end_at_once()
        self._servers.forget(server)
        self._births.server_lost(server)

    # -- segments ------------------------------------------------------------------------------

    def free_segment(self, location: tuple[str, int]) -> None:
        """Nobody needs it: back to the process that wrote it, for its next value."""
        name = location[0]
        if name[0] == "d" or not self.recycle(name):
            self._engine.store.delete(name)

    def recycle(self, name: str) -> bool:
        """Give a segment back to its writer; False if that is gone."""
        writer = int(name[1:].partition("-")[0])
        if writer == 0:
            self._engine.store.recycle(name)
        elif writer in self.workers:
            self.send(self.workers[writer], m.RecycleSegment(name), at_once=False)
        else:
            return False
        return True

    # -- the end -------------------------------------------------------------------------------

    def forsake(self) -> None:
        """In a forked child: workers and servers are the parent's."""
        for worker in self.workers.values():
            worker.connection.forsake()
            worker.forget_birth()
        for server in self._servers.all():
            server.close()
        if self._environments is not None:
            self._environments.forsake()

    def shutdown(self) -> None:
        for worker in self.workers.values():
            self.kill(worker)
            worker.connection.close()
            worker.forget_birth()
        self.workers.clear()
        for server in self._servers.all():
            server.stop()
        if self._environments is not None:
            self._environments.close()
        open_files.allow(self._open_files)


def _cwd() -> str:
    try:
        return os.getcwd()
    except FileNotFoundError:
        return "/"


def _status_of_zombie(pid: int) -> int | None:
    """As from waitpid, of a process that has ended and that its parent has not collected yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[49]) if fields[0] == b"Z" else None
