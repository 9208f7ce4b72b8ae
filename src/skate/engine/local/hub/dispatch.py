"""What the hub writes to workers.

`WorkerOutbox` takes any message. `Dispatch` sends work: tasks to the workers that the scheduler
has chosen, calls to their actors.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from skate._core.accelerators import nth
from skate.engine.local import messages as m
from skate.engine.local.objects import STORED
from skate.engine.local.wire import encode, encode_work

if TYPE_CHECKING:
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.functions import Functions
    from skate.engine.local.hub.memory_guard import MemoryGuard
    from skate.engine.local.hub.segments import Segments
    from skate.engine.local.hub.work import HubTask
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.local.reactor import Reactor
    from skate.engine.local.wire import Message


class WorkerOutbox:
    """Collects messages; the engine writes them when it has done its work."""

    def __init__(self, reactor: Reactor) -> None:
        self.urgent: bool = False  # something was sent that must not wait for company
        self._collect = reactor.collect

    def send(
        self, worker: WorkerProcess, message: tuple[object, ...], at_once: bool = True
    ) -> None:
        """Send one of `messages`: at once, or with others soon."""
        self.write(worker, encode(message), at_once)

    def write(self, worker: WorkerProcess, message: Message, at_once: bool) -> None:
        """Send a message that is encoded already."""
        self._collect(worker.connection, message)
        if at_once:
            self.urgent = True


class Dispatch:
    """Writes work to workers, with all that these need for it."""

    def __init__(
        self,
        functions: Functions,
        segments: Segments,
        outbox: WorkerOutbox,
        guard: MemoryGuard,
        visible_accelerators: Mapping[str, Sequence[int | str] | None],
    ) -> None:
        self._functions = functions
        self._segments = segments
        self._outbox = outbox
        self._guard = guard
        self._visible_accelerators = visible_accelerators

    def send(self, worker: WorkerProcess, task: HubTask) -> None:
        """Send a task, or the construction of an actor with the calls that waited for it."""
        if self._guard.asleep:
            self._guard.wake()
        task.sent = time.time()
        function = task.function
        assert function is not None
        if function.key not in worker.functions:
            self._functions.ensure(worker, function)
        kind, data = task.args
        message = encode_work(
            m.TASK if task.actor is None else m.CREATION,
            task.id,
            function.key,
            kind,
            data,
            self._dependency_values(task) if task.dependencies else None,
            task.plan.num_returns,
            self._settings(worker, task),
        )
        # The first task of a worker goes at once; those behind it go together.
        self._outbox.write(worker, message, len(worker.in_flight) == 1)
        if task.actor is not None:
            worker.actor = task.actor
            self.send_calls(task.actor, task.actor.placed(worker))

    def send_calls(self, actor: HubActor, tasks: Sequence[HubTask]) -> None:
        """Send calls to an actor that has a process."""
        if self._guard.asleep:
            self._guard.wake()
        for task in tasks:
            worker = actor.worker
            assert worker is not None
            task.worker, task.sent = worker, time.time()
            worker.in_flight[task.id] = task
            kind, data = task.args
            plan = task.plan
            message = encode_work(
                m.CALL,
                task.id,
                task.method,
                kind,
                data,
                self._dependency_values(task) if task.dependencies else None,
                plan.num_returns,
                plan.settings,
            )
            self._outbox.write(worker, message, len(worker.in_flight) == 1)

    def _dependency_values(self, task: HubTask) -> list[tuple[m.Slot, int, object, int]]:
        values = []
        for slot, entry in task.dependencies:
            assert entry.kind is not None
            if entry.kind == STORED:
                self._segments.read(entry)
            values.append((slot, entry.kind, entry.data, entry.id))
        return values

    def _settings(self, worker: WorkerProcess, task: HubTask) -> m.WorkSettings | None:
        settings = task.plan.settings
        allocation = worker.allocation
        if allocation is not None and allocation.numbered:
            settings = settings.copy() if settings else {}
            settings["accelerators"] = {
                name: nth(allocation.numbers(name), self._visible_accelerators.get(name))
                for name in allocation.numbered
            }
        if task.actor is not None and task.actor.restarts:
            settings = settings.copy() if settings else {}
            settings["restarted"] = True
        return settings
