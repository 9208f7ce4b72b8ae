"""How workers come into being: a fork server is asked, and another one when it cannot.

    begin ──► server's queue ──► FORK ──► FORKED, pid      the worker is there
      ▲                           │
      └──── pause, next try ◄─────┴─ the server died, or the fork failed

Messages for the worker wait in its socket all the while. The other end is kept here until a
process has it: whatever happens to a server, another one can start the same worker. None is
started twice: a process tells that it is there before anything else.
"""

from __future__ import annotations

import signal
from collections.abc import Callable

from skate.engine.local.hub.errors import no_process, system_said
from skate.engine.local.hub.servers import ForkServer, Servers
from skate.engine.local.hub.workers import WorkerProcess

_MOST_TRIES = 3
_PAUSE_SECONDS = 0.1  # times the number of tries: what is short may be there by then


class WorkerLaunches:
    """The workers of a session that have no process yet."""

    def __init__(
        self,
        servers: Servers,
        later: Callable[[float, Callable[[], None]], None],
        lost: Callable[[WorkerProcess], None],
    ) -> None:
        self._servers = servers
        self._later = later
        self._lost = lost  # the worker will never be: called by itself, never within a call

    def begin(self, worker: WorkerProcess) -> None:
        """Ask for the worker's process, unless nobody wants it any more."""
        launch = worker.launch
        if launch is None:  # it was given up meanwhile
            return
        if worker.ending:
            self.withdraw(worker)
            return
        launch.tries += 1
        # The last try does without what is imported beforehand: that may be what ends servers.
        wants = launch.wants if launch.tries < _MOST_TRIES else _nothing
        try:
            server = self._servers.choose(wants, launch.interpreter)
        except OSError as error:  # a new one was needed
            self._try_again(worker, system_said(error), _PAUSE_SECONDS)
            return
        worker.server = server
        server.workers[worker.number] = worker
        server.requests.add(worker)
        self.send(server)

    def send(self, server: ForkServer) -> None:
        """Send what a server may have room for now."""
        failed = server.requests.send()
        if failed is not None:
            self._try_again(failed[0], system_said(failed[1]), _PAUSE_SECONDS)

    def forked(self, server: ForkServer, worker: WorkerProcess | None, pid: int) -> None:
        """Note the answer of a server; `pid` is a negative error number if it could not fork."""
        server.requests.answered()
        if worker is not None and worker.launch is not None:
            if pid < 0:
                self._try_again(worker, system_said(OSError(-pid, "")), _PAUSE_SECONDS)
            else:
                worker.pid = pid
                worker.end_launch()
        self.send(server)

    def died(self, worker: WorkerProcess) -> None:
        """Try again: its process was there, and ended before it could tell so."""
        assert worker.server is not None
        worker.server.requests.answered()
        self._try_again(worker, "it was killed as it began", 0)

    def server_lost(self, server: ForkServer) -> None:
        """Have others start what a lost server has not; those that it has started live on."""
        for worker in list(server.workers.values()):
            if worker.launch is not None:
                self._try_again(worker, f"fork server {server.pid} died", 0)

    def withdraw(self, worker: WorkerProcess) -> bool:
        """Take back the request for a worker; False if a server has it already."""
        server = worker.server
        if server is not None and not server.requests.withdraw(worker):
            return False
        worker.status = signal.SIGKILL
        self._later(0, lambda: self._lost(worker))
        return True

    def _try_again(self, worker: WorkerProcess, reason: str, pause: float) -> None:
        launch = worker.launch
        assert launch is not None
        if worker.server is not None:
            worker.server.workers.pop(worker.number, None)
            worker.server = None
        if launch.tries >= _MOST_TRIES:
            worker.never_started = no_process(reason)
            self._later(0, lambda: self._lost(worker))
        else:
            self._later(pause * launch.tries, lambda: self.begin(worker))


def _nothing(modules: list[str]) -> bool:
    return False
