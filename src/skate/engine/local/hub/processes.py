"""Worker processes: starting them, talking to them, noticing that they are gone."""

from __future__ import annotations

import os
import select
import signal
import socket
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from skate._core.optional_imports import ray_is_skate
from skate.engine.local import forkserver, open_files
from skate.engine.local import messages as m
from skate.engine.local.coverage_runs import is_measured
from skate.engine.local.hub.errors import NOT_NEEDED
from skate.engine.local.hub.launches import WorkerLaunches
from skate.engine.local.hub.servers import WARM_UP_SECONDS, ForkServer, Servers
from skate.engine.local.hub.work import HubTask
from skate.engine.local.hub.workers import Environment, Launch, WorkerProcess
from skate.engine.local.inspection.traces import remove_traces
from skate.engine.local.objects import new_process_number
from skate.engine.local.wire import Connection, Message, encode
from skate.exceptions import RuntimeEnvSetupError

if TYPE_CHECKING:
    from skate.engine.local.hub.dispatch import WorkerOutbox
    from skate.engine.local.hub.environments import (
        Environments,
        Outcome,
        WantedEnvironment,
        WhenDone,
    )
    from skate.engine.local.hub.ports import Ports

_GRACE_SECONDS = 5.0  # for a worker that was asked to exit
_LOOK_SECONDS = 0.05  # between two looks at a worker whose socket is closed,
_LOOKS = 10  # and how many, before it is taken for dead
_GARBLED = (ValueError, TypeError, EOFError)  # someone else wrote into a worker's socket


class Processes:
    """The workers of a session."""

    def __init__(
        self,
        ports: Ports,
        workers: dict[int, WorkerProcess],
        outbox: WorkerOutbox,
        servers: Servers,
        settings: Mapping[str, Any],
        outputs: list[int],
        on_messages: Callable[[WorkerProcess, list[Message]], None],
        on_lost: Callable[[WorkerProcess], None],
    ) -> None:
        self._ports = ports
        self._reactor = ports.reactor
        self._workers = workers
        self._outbox = outbox
        self._servers = servers
        # The driver needs many; programs in workers find what they would find without skate.
        self._open_files = open_files.allow_many()
        self._settings = {**settings, "open_files": self._open_files}
        self._outputs = outputs  # where workers' own stdout and stderr go
        self._on_messages = on_messages
        self._on_lost = on_lost  # called when all that the worker had sent has been handled
        self._launches = WorkerLaunches(servers, ports.call_later, self._gone)
        self._environments: Environments | None = None  # once someone asks for another one
        servers.watch(self._watch_server)
        self._warming = False
        # What takes seconds to import begins while the program prepares its first work.
        self._reactor.call_later(WARM_UP_SECONDS, self._warm_up_if_slow)

    # -- starting ------------------------------------------------------------------------------

    def start(self, environment: Environment, task: HubTask) -> WorkerProcess:
        """Start a worker. It can be sent messages at once; they wait until it is up. Raises
        OSError if this process cannot have another one."""
        if not self._warming:
            self._warming = True
            self._reactor.call_later(WARM_UP_SECONDS, self._warm_up)
        ours, theirs = socket.socketpair()
        worker = WorkerProcess(new_process_number(), environment, Connection(ours))
        settings = {
            **self._settings,
            **dict(environment),
            "environ": dict(os.environ),
            "cwd": _cwd(),
            "titles": "ray" if ray_is_skate() else "skate",
            "sys_path": [os.fspath(path) for path in sys.path],
        }
        worker.launch = Launch(settings, theirs, self._outputs, task.uses_any)
        self._workers[worker.number] = worker
        self._reactor.add(ours.fileno(), lambda: self._readable(worker))
        wanted = settings.pop("wants", None)
        if wanted is None:
            self._launches.begin(worker)
        else:
            self.find_environment(wanted, lambda outcome: self._begin_there(worker, outcome))
        return worker

    def find_environment(self, wanted: WantedEnvironment, when_done: WhenDone) -> None:
        """Have an environment with packages of its own; `when_done` is told, now or later."""
        if self._environments is None:
            from skate.engine.local.hub.environments import Environments

            self._environments = Environments(self._reactor, self._ports.call_later)
        self._environments.find(wanted, when_done)

    def _begin_there(self, worker: WorkerProcess, outcome: Outcome) -> None:
        """Start the worker on the interpreter that was found for it, unless there is none."""
        launch = worker.launch
        if launch is None:  # it was given up meanwhile
            return
        if isinstance(outcome, RuntimeEnvSetupError):
            worker.failure = outcome
            self._ports.call_later(0, lambda: self._gone(worker))
            return
        launch.interpreter = outcome
        launch.settings["prefix"] = outcome.prefix
        launch.settings["path_around"] = forkserver.path_around()
        self._launches.begin(worker)

    def _warm_up_if_slow(self) -> None:
        if self._servers.slow_in_use():
            self._warm_up()

    def _warm_up(self) -> None:
        """Have a warm server, unless work that has begun needs one: importing the rest there now,
        which may take seconds, would take the processors from that work."""
        if not self._servers.is_warm():
            self.warm_up()

    def warm_up(self, modules: Sequence[str] | None = None) -> None:
        """Have a server that has imported these modules, or what this process uses now."""
        with self._ports.lock, suppress(OSError):  # who needs it will try, and say why not
            self._servers.warm_up(modules)

    # -- talking -------------------------------------------------------------------------------

    def steal(self, worker: WorkerProcess) -> None:
        self._outbox.send(worker, m.StealWork())

    def _readable(self, worker: WorkerProcess) -> None:
        with self._ports.lock:
            if worker.number not in self._workers:
                return
            received = self._receive(worker)
            if received is None:
                self._hung_up(worker)
            else:
                self._on_messages(worker, received)

    def _receive(self, worker: WorkerProcess) -> list[Message] | None:
        try:
            return worker.connection.receive()
        except _GARBLED:
            self.kill(worker)
            return None

    # -- ending --------------------------------------------------------------------------------

    def kill(self, worker: WorkerProcess) -> None:
        """End it now, with what it has started."""
        worker.ending = worker.ending or "killed"
        if worker.pid > 0:
            try:
                os.killpg(worker.pid, signal.SIGKILL)
            except (ProcessLookupError, PermissionError):
                pass
        elif not self._launches.withdraw(worker):
            assert worker.server is not None
            worker.server.kill(worker)

    def retire(self, worker: WorkerProcess) -> None:
        """Ask it to exit; insist after a while."""
        worker.ending = worker.ending or NOT_NEEDED
        self._outbox.send(worker, m.ExitWorker())
        self._ports.call_later(_GRACE_SECONDS, lambda: self._insist(worker))

    def _insist(self, worker: WorkerProcess) -> None:
        if worker.number in self._workers:
            self.kill(worker)

    def _hung_up(self, worker: WorkerProcess) -> None:
        """Find out how a worker ended whose socket is closed. Its server will say, if it is
        there."""
        self._reactor.remove(worker.connection.fileno())
        if worker.status is not None or worker.server is None or worker.server.dead:
            self._gone(worker)
        else:
            self._look_for_its_end(worker, looks=_LOOKS)

    def _look_for_its_end(self, worker: WorkerProcess, looks: int) -> None:
        """Look at /proc: a server in the middle of an import tells nothing for seconds."""
        worker.status = _status_of_zombie(worker.pid)
        if worker.status is not None or not looks:
            self.kill(worker)  # what it has started itself goes with it
            self._gone(worker)
        else:
            self._ports.call_later(_LOOK_SECONDS, lambda: self._look_again(worker, looks - 1))

    def _look_again(self, worker: WorkerProcess, looks: int) -> None:
        if worker.number in self._workers:
            self._look_for_its_end(worker, looks)

    def _gone(self, worker: WorkerProcess) -> None:
        if self._workers.pop(worker.number, None) is None:
            return
        worker.end_launch()
        if worker.server is not None:
            worker.server.workers.pop(worker.number, None)
        self._reactor.remove(worker.connection.fileno())
        worker.connection.close()
        remove_traces(self._settings["home"], worker.pid)
        self._on_lost(worker)

    # -- fork servers --------------------------------------------------------------------------

    def _watch_server(self, server: ForkServer) -> None:
        self._reactor.add(server.control.fileno(), lambda: self._server_readable(server))

    def _server_readable(self, server: ForkServer) -> None:
        with self._ports.lock:
            received = server.receive()
            if received is None:
                self._server_lost(server)
                return
            for operation, *rest in received:
                if operation == forkserver.READY:
                    server.busy -= 1
                    self._launches.send(server)
                elif operation == forkserver.BUSY:
                    server.busy += 1
                elif operation == forkserver.FORKED:
                    number, pid = rest
                    self._launches.forked(server, self._workers.get(number), pid)
                elif operation == forkserver.EXITED:
                    self._exited(*rest)

    def _exited(self, number: int, status: int) -> None:
        worker = self._workers.get(number)
        if worker is None:
            return
        if worker.launch is not None:
            self._launches.died(worker)
            return
        worker.status = status
        # Read what it had still written. Not until end of file: a child of its own may have
        # kept the socket open.
        try:
            for received in worker.connection.drain():
                self._on_messages(worker, received)
        except _GARBLED:
            pass
        self._gone(worker)

    def _server_lost(self, server: ForkServer) -> None:
        """Forget a server. Its workers live on, and notice by themselves when the driver goes."""
        self._reactor.remove(server.control.fileno())
        server.end_at_once()
        self._servers.forget(server)
        self._launches.server_lost(server)

    # -- the end -------------------------------------------------------------------------------

    def detach_in_child(self) -> None:
        """Detach in a forked child: workers and servers are the parent's."""
        for worker in self._workers.values():
            worker.connection.detach_in_child()
            worker.end_launch()
        for server in self._servers.all():
            server.close()
        if self._environments is not None:
            self._environments.detach_in_child()

    def _let_end(self) -> None:
        """Ask all workers to exit, and wait for that as long as for one."""
        poller = select.poll()
        waiting = set()
        for worker in self._workers.values():
            if worker.pid > 0:
                with suppress(OSError):  # it has ended
                    waiting.add(pidfd := os.pidfd_open(worker.pid))
                    poller.register(pidfd, select.POLLIN)
                    worker.connection.outbox.append(encode(m.ExitWorker()))
                    worker.connection.flush()
        deadline = time.monotonic() + _GRACE_SECONDS
        while waiting and (left := deadline - time.monotonic()) > 0:
            for pidfd, _ in poller.poll(left * 1000):
                poller.unregister(pidfd)
                waiting.remove(pidfd)
                os.close(pidfd)
        for pidfd in waiting:
            os.close(pidfd)

    def shutdown(self) -> None:
        if is_measured():
            self._let_end()
        for worker in self._workers.values():
            self.kill(worker)
            worker.connection.close()
            worker.end_launch()
        self._workers.clear()
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
    """Return the status, as from waitpid, of a process that has ended and that its parent has
    not collected yet."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    return int(fields[49]) if fields[0] == b"Z" else None
