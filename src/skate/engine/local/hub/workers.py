"""A worker process as the hub sees it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from socket import socket as Socket  # noqa: N812 - an attribute is called socket

    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.memory_guard import Eviction
    from skate.engine.local.hub.resources import Allocation
    from skate.engine.local.hub.scheduler import Shape
    from skate.engine.local.hub.servers import ForkServer, Interpreter
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.wire import Connection
    from skate.exceptions import SkateError

Environment = tuple[Any, ...]  # what a process must be started with; hashable


class Launch:
    """What a fork server needs to start a worker."""

    __slots__ = ("interpreter", "outputs", "settings", "socket", "tries", "wants")

    def __init__(
        self,
        settings: dict[str, object],
        socket: Socket,
        outputs: list[int],
        wants: Callable[[list[str]], bool],
    ) -> None:
        self.settings: dict[str, Any] = settings
        self.socket: Socket = socket  # the worker's end
        self.outputs: list[int] = outputs
        # Whether its work uses any of these modules.
        self.wants: Callable[[list[str]], bool] = wants
        self.interpreter: Interpreter | None = None  # other than the driver's
        self.tries: int = 0


class WorkerProcess:
    """The process, what it runs, and what it holds."""

    __slots__ = (
        "actor", "allocation", "answered", "began", "blocked", "calls", "connection", "ending",
        "environment", "evicted", "exclusive", "exported", "failure", "functions", "holds",
        "in_flight", "last_call", "last_words", "launch", "listening", "loans", "never_started",
        "number", "options", "order", "pid", "promised", "server", "shape", "since", "status",
        "stealing", "waits", "wants_peer", "when_lost",
    )  # fmt: skip

    def __init__(self, number: int, environment: Environment, connection: Connection) -> None:
        self.number: int = number
        self.began: float = time.time()
        self.environment: Environment = environment
        self.connection: Connection = connection
        self.launch: Launch | None = None  # until a process has been started
        self.pid: int = 0  # until the fork server has told
        self.server: ForkServer | None = None
        self.status: int | None = None  # as from waitpid, when it has ended
        self.never_started: str = ""  # why there never was a process
        self.last_words: str = ""  # why it ends, as it has said itself
        self.last_call: int = 0  # by which its actor has ended itself
        self.failure: SkateError | None = None  # the error of its work, which nothing would mend
        self.ending: str | None = None  # why it is being ended
        self.evicted: Eviction | None = None  # it used, or others lacked, memory
        self.order: int = 0  # of the last work that it was given, among all that was given out
        self.in_flight: dict[int, HubTask] = {}  # sent and not answered, in order
        self.shape: Shape | None = None  # what it is leased for
        self.allocation: Allocation | None = None
        self.actor: HubActor | None = None
        self.blocked: int = 0  # threads of it that wait for others
        self.waits: dict[int, Sequence[int]] = {}  # for which objects, by the numbers of waits
        self.answered: int = 0  # the request that was answered last
        self.exclusive: bool = False  # what it runs allows nothing beside it
        self.stealing: bool = False
        self.calls: dict[int, int] = {}  # of functions with max_calls
        self.since: float = 0.0  # when its lease began, or its rest
        self.functions: set[int] = set()  # that it has been sent
        self.options: dict[int, Any] = {}  # that it has sent
        self.holds: set[int] = set()  # objects that its references and views keep
        self.exported: set[int] = set()  # functions that it has sent
        self.loans: list[int] = []  # objects kept for it until it says that it holds them
        self.promised: set[int] = set()  # objects that only it can complete
        self.listening: str = ""
        self.wants_peer: list[WorkerProcess] = []
        self.when_lost: list[
            Callable[[], None]
        ] = []  # to be called when all that follows its end is done

    def end_launch(self) -> None:
        """Close the worker's end of the socket here: it has it, or will never be."""
        if self.launch is not None:
            self.launch.socket.close()
            self.launch = None

    def count_call(self, function: int) -> int:
        """Return how often a function was called so far, this call included."""
        self.calls[function] = self.calls.get(function, 0) + 1
        return self.calls[function]

    def __repr__(self) -> str:
        return f"WorkerProcess({self.number}, pid={self.pid})"
