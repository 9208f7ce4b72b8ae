"""A whole hub without processes: a test plays the workers, and says when time passes."""

from __future__ import annotations

import itertools
import threading
from collections import deque
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub.actors import HubActor
from skate.engine.local.hub.hub import Hub
from skate.engine.local.hub.ports import Ports
from skate.engine.local.hub.resources import ResourcePool, to_units
from skate.engine.local.hub.spilling import Spilling
from skate.engine.local.hub.state import SessionFacts
from skate.engine.local.hub.streams import ItemStream
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.work import ExportedFunction, HubTask, WorkPlan
from skate.engine.local.hub.workers import WorkerProcess
from skate.engine.local.objects import FAILED, INLINE, ObjectEntry, ObjectTable
from skate.engine.local.wire import encode
from skate.engine.specs import ActorMeta, ActorOptions, CallOptions, TaskOptions

META = ActorMeta("A", "m", {})


class FakeReactor:
    """Collects messages and timers."""

    closed = False

    def __init__(self) -> None:
        self.after: deque[Callable[[], None]] = deque()
        self.timers: list[tuple[float, Callable[[], None]]] = []

    def collect(self, connection: Any, message: Any) -> None:
        connection.outbox.append(message)

    def call_later(self, delay: float, callback: Callable[[], None]) -> None:
        self.timers.append((delay, callback))

    def add(self, fd: int, handler: Callable[[], None]) -> None: ...
    def remove(self, fd: int) -> None: ...


class FakeStore:
    """Remembers what becomes of segments."""

    capacity = 1000

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.recycled: list[str] = []
        self.present: set[str] = set()

    def delete(self, name: str) -> None:
        self.deleted.append(name)

    def recycle(self, name: str) -> None:
        self.recycled.append(name)

    def exists(self, location: tuple[str, int]) -> bool:
        return location[0] in self.present

    def delete_others(self, writer: int, in_use: set[str]) -> None:
        self.deleted.append(f"free ones of {writer}, except {sorted(in_use)}")


class FakeServers:
    """Take every request for a worker, and never answer."""

    def __init__(self) -> None:
        self._server = SimpleNamespace(
            workers={},
            pid=17,
            dead=False,
            kill=lambda worker: None,
            requests=SimpleNamespace(
                add=lambda worker: None,
                answered=lambda: None,
                send=lambda: None,
                withdraw=lambda worker: False,
            ),
        )

    def watch(self, watch: Callable[[Any], None]) -> None: ...

    def warm_up(self, modules: object = None) -> None: ...

    def is_warm(self) -> bool:
        return False

    def slow_in_use(self) -> bool:
        return False

    def choose(self, wants: Any, interpreter: Any = None) -> Any:
        return self._server

    def all(self) -> list[Any]:
        return []


class _Entries:
    """As much of an engine as completes entries."""

    def __init__(self) -> None:
        self.entries: dict[int, ObjectEntry] = {}
        self._blocked: list[Any] = []

    complete: Any = ObjectTable.complete
    on_complete: Any = ObjectTable.on_complete


class HubBench:
    """A hub on fakes, and the moves that the driver and its workers make."""

    def __init__(self, cpus: float = 2, **resources: float) -> None:
        self.reactor = FakeReactor()
        self.store = FakeStore()
        self.printed: list[tuple[int, str, str]] = []
        self._ids = itertools.count(1 << 16, 1 << 16)
        objects = _Entries()
        self.entries = objects.entries
        lock = threading.RLock()
        lock.acquire()  # as whoever calls the hub has it
        reactor: Any = self.reactor
        store: Any = self.store
        servers: Any = FakeServers()
        self.spilling = Spilling(store, lambda name: None, lock)
        ports = Ports(
            lock,
            reactor,
            store,
            self.spilling,
            objects.complete,
            objects.on_complete,
            self.new_id,
            lambda pid, stream, label, text, *of: self.printed.append((stream, label, text)),
            lambda number: [],
        )
        self.hub = Hub(
            ports,
            SessionFacts("default", "01", "here", {}, {}, {}),
            self.entries,
            ResourcePool(to_units({"CPU": cpus, **resources})),
            servers,
            {"home": "/nowhere"},
            [],
            (1.0, 0.0),
        )
        self.function = ExportedFunction(self.new_id(), INLINE, NONE, "f")
        self.hub.functions.keep(self.function, ())

    def close(self) -> None:
        self.hub.close()

    def new_id(self) -> int:
        return next(self._ids)

    # -- the driver ----------------------------------------------------------------------------

    def put(self, kind: int | None = INLINE, data: Any = NONE) -> ObjectEntry:
        """An object of the driver's; pending, if its kind is None."""
        entry = ObjectEntry(self.new_id())
        self.entries[entry.id] = entry
        entry.count = 1
        entry.kind, entry.data = kind, data
        return entry

    def submit(self, *dependencies: ObjectEntry, **options: Any) -> HubTask:
        plan = self.hub.planner.task_plan(TaskOptions(**options))
        task = self._task(self.function, plan, dependencies)
        self.hub.tasks.submit(task)
        return task

    def _task(
        self, function: Any, plan: WorkPlan, dependencies: Sequence[ObjectEntry] = ()
    ) -> HubTask:
        arguments = list(enumerate(dependencies))
        task = HubTask(self.new_id(), function, (INLINE, NONE), arguments, (), plan, None)
        for id in task.return_ids:
            entry = self.entries[id] = ObjectEntry(id)
            entry.task, entry.count = task, 1
        if plan.streaming:
            self.entries[task.id].stream = ItemStream()
        return task

    def create_actor(self, **options: Any) -> HubActor:
        given = ActorOptions(**options)
        task = self._task(self.function, self.hub.planner.actor_plan(given, META))
        meta = serialization.dumps(META).packed()
        actor = self.hub.actor_names.new_actor(task, given, META, meta)
        self.hub.lifecycle.create(actor)
        return actor

    def call(self, actor: HubActor, *dependencies: ObjectEntry, **options: Any) -> HubTask:
        plan = self.hub.planner.call_plan(actor.id, CallOptions(**options))
        task = self._task(None, plan, dependencies)
        task.method = "method"
        self.hub.lifecycle.call(actor.id, task)
        return task

    def drop(self, *ids: int) -> None:
        """The driver lets go of objects."""
        self.hub.counts.drop(ids)

    def ask(self, method: str, *args: Any) -> Any:
        return self.hub.requests.answers[method](*args)

    def error_of(self, id: int) -> BaseException:
        entry = self.entries[id]
        assert entry.kind == FAILED
        error: BaseException = serialization.loads(entry.data)
        return error

    def is_done(self, id: int) -> bool:
        return self.entries[id].kind is not None

    # -- workers -------------------------------------------------------------------------------

    @property
    def workers(self) -> list[WorkerProcess]:
        return list(self.hub.state.workers.values())

    def sent(self, worker: WorkerProcess) -> list[Any]:
        """The messages that the worker has been sent since it was asked about last."""
        messages, worker.connection.outbox = worker.connection.outbox, []
        made = (m.MESSAGES[number](*fields) for number, fields in messages)
        return [message for message in made if not isinstance(message, m.DefineFunction)]

    def receive(self, worker: WorkerProcess, *messages: Any) -> None:
        """The worker has sent these."""
        self.hub.received(worker, [encode(message) for message in messages])

    def finish(self, task: HubTask, kind: int = INLINE, data: Any = NONE) -> None:
        assert task.worker is not None
        self.receive(task.worker, m.WorkResult(task.id, kind, data, (), 5))

    def ask_as(self, worker: WorkerProcess, method: str, *args: Any) -> Any:
        """What a worker is answered; None if there is no answer yet."""
        answer = self.new_id()
        self.receive(worker, m.AskHub(answer, method, serialization.dumps(args).packed()))
        return self.answer_to(worker, answer)

    def answer_to(self, worker: WorkerProcess, answer: int) -> Any:
        for message in self.sent(worker):
            if isinstance(message, m.TellValue) and message.id == answer:
                value = serialization.loads(message.data)
                if message.kind == FAILED:
                    raise value
                return value
        return None

    def lose(self, worker: WorkerProcess, status: int | None = None) -> None:
        """The process is gone."""
        worker.status = status
        self.hub.processes._gone(worker)

    def pass_time(self) -> None:
        """Let the timers run that are set now, and what was put off to the end of a turn."""
        due, self.reactor.timers[:] = self.reactor.timers[:], []
        for _, callback in due:
            callback()
        while self.reactor.after:
            self.reactor.after.popleft()()
