"""Tasks and calls: waiting for arguments, sending, answers, retries, cancellation."""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate._core.accelerators import nth
from skate.engine.local import messages as m
from skate.engine.local.hub import actors, errors
from skate.engine.local.hub.actors import Actor
from skate.engine.local.hub.memory_guard import Eviction, MemoryGuard
from skate.engine.local.hub.processes import Processes
from skate.engine.local.hub.scheduler import Scheduler
from skate.engine.local.hub.streaming import Streaming
from skate.engine.local.hub.streams import Stream
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.work import Function, Task, run_of
from skate.engine.local.hub.workers import Worker
from skate.engine.local.objects import FAILED, INLINE, STORED, Entry

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine

_TIMELINE = 10_000  # runs remembered
_EVICTED_SECONDS = 1.0  # before a task is tried again that was ended for lack of memory


class Tasks(Streaming):
    """The way of a task from submission to its answer."""

    def __init__(
        self,
        engine: LocalEngine,
        scheduler: Scheduler,
        processes: Processes,
        guard: MemoryGuard,
    ) -> None:
        super().__init__(engine, processes)
        self.scheduler = scheduler
        self.guard = guard
        self.functions: dict[int, Function] = {}  # that workers may send tasks for
        self.runs: deque[tuple[Any, ...]] = deque(maxlen=_TIMELINE)  # as of `run_of`
        self._answered: list[Worker] = []
        self._children: dict[int, set[int]] = {}  # tasks by the task that submitted them

    @abstractmethod
    def _construction_failed(self, actor: Actor, error: Any) -> None:
        """The constructor of an actor raised; the error is packed."""

    @abstractmethod
    def _actor_dead(self, actor: Actor, error: Any) -> None:
        """The actor is dead for good, because of the packed error."""

    # -- submitting -------------------------------------------------------------------------

    def announce(self, task: Task) -> None:
        """Make the entries of what a worker's task will return; the worker holds them."""
        assert task.owner is not None
        self.counts.hold(task.owner, task.return_ids)
        for id in task.return_ids:
            self.counts.entry(id).task = task
        if task.plan.streaming:
            self.counts.entry(task.id).stream = Stream()
        if task.parent:
            self._children.setdefault(task.parent, set()).add(task.id)

    def submit(self, task: Task) -> None:
        """Run a task when its arguments and resources are there."""
        assert task.plan.shape is not None
        if task.plan.shape.problem is not None:
            self.refuse(task, errors.packed(errors.unschedulable(task, self.scheduler)))
        elif not (task.dependencies or task.nested) or self._arguments_there(task):
            self.scheduler.enqueue(task)

    def _arguments_there(self, task: Task) -> bool:
        """Keep the arguments alive; False if the task must wait for one, or has failed."""
        if task.nested:
            self.counts.add(task.nested)
        failed = None
        for _, entry in task.dependencies:
            entry.count += 1
            if entry.kind is None:
                task.missing += 1
                self.engine.on_complete(entry, lambda entry: self._argument_came(task, entry))
            elif entry.kind == FAILED:
                failed = entry
        if failed is not None:
            self.fail(task, errors.argument_failed(task, failed.data))
            return False
        return not task.missing

    def _argument_came(self, task: Task, entry: Entry) -> None:
        task.missing -= 1
        if task.cancelled:
            return
        if entry.kind == FAILED:
            self.fail(task, errors.argument_failed(task, entry.data))
        elif not task.missing:
            if task.actor is not None and task.method:
                self._send_calls(task.actor, task.actor.advance(task))
            else:
                self.scheduler.enqueue(task)

    # -- sending ----------------------------------------------------------------------------

    def send(self, worker: Worker, task: Task) -> None:
        """The scheduler has chosen a worker for a task."""
        if self.guard.asleep:
            self.guard.wake()
        function = task.function
        assert function is not None
        self._ensure_function(worker, function)
        kind, data = task.args
        arguments = self._dependency_values(task) if task.dependencies else None
        message = m.encode_work(
            m.TASK if task.actor is None else m.CREATION,
            task.id,
            function.key,
            kind,
            data,
            arguments,
            task.plan.num_returns,
            self._settings(worker, task),
        )
        # The first task of a worker goes at once; those behind it go together.
        self.processes.write(worker, message, len(worker.in_flight) == 1)
        if task.actor is not None:
            worker.actor = task.actor
            self._send_calls(task.actor, task.actor.placed(worker))

    def _send_calls(self, actor: Actor, tasks: Sequence[Task]) -> None:
        if self.guard.asleep:
            self.guard.wake()
        for task in tasks:
            worker = actor.worker
            assert worker is not None
            task.worker = worker
            worker.in_flight[task.id] = task
            kind, data = task.args
            arguments = self._dependency_values(task) if task.dependencies else None
            plan = task.plan
            message = m.encode_work(
                m.CALL,
                task.id,
                task.method,
                kind,
                data,
                arguments,
                plan.num_returns,
                plan.settings,
            )
            self.processes.write(worker, message, len(worker.in_flight) == 1)

    def _ensure_function(self, worker: Worker, function: Function) -> None:
        if function.key not in worker.functions:
            worker.functions.add(function.key)
            message = m.DefineFunction(function.key, function.kind, function.data, function.name)
            self.processes.send(worker, message, at_once=False)

    def forget_function(self, key: int) -> None:
        """The function is gone, and with it all work that could need it: workers need not keep
        it, and what its closure holds, any longer."""
        for worker in self.processes.workers.values():
            if key in worker.functions:
                worker.functions.discard(key)
                self.processes.send(worker, m.ForgetFunction(key), at_once=False)

    def _dependency_values(self, task: Task) -> list[tuple[Any, ...]]:
        for _, entry in task.dependencies:
            if entry.kind == STORED:
                self.engine.spilling.used(entry)
        return [(slot, e.kind, e.data, e.id) for slot, e in task.dependencies]

    def _settings(self, worker: Worker, task: Task) -> m.WorkSettings | None:
        settings = task.plan.settings
        allocation = worker.allocation
        if allocation is not None and allocation.numbered:
            visible = self.engine.visible_accelerators
            ids = {
                name: nth(allocation.numbers(name), visible.get(name))
                for name in allocation.numbered
            }
            settings = settings.copy() if settings else {}
            settings["accelerators"] = ids
        if task.actor is not None and task.actor.restarts:
            settings = settings.copy() if settings else {}
            settings["restarted"] = True
        return settings

    # -- answers ----------------------------------------------------------------------------

    def on_result(
        self, worker: Worker, id: int, kind: int, data: Any, contained: Any, micros: int
    ) -> None:
        task = worker.in_flight.pop(id, None)
        if task is None:
            self._discard(kind, data)
            return
        if kind == FAILED:
            self._failed(task, id, data)
        else:
            self._complete(id, kind, data, contained)
        self._finished(worker, task, micros, kind == FAILED)

    def _failed(self, task: Task, id: int, error: Any) -> None:
        entry = self.engine.entries.get(id)
        if task.actor is not None and not task.method:
            self._construction_failed(task.actor, error)
        elif entry is not None and entry.stream is not None:
            self._add_error(entry.stream, error)  # which is told there, and only there
            self._complete(id, INLINE, NONE, ())
        else:
            self._complete(id, FAILED, error, ())

    def on_results(self, worker: Worker, id: int, values: Any, micros: int) -> None:
        task = worker.in_flight.pop(id, None)
        for offset, (kind, data, contained) in enumerate(values):
            if task is None:
                self._discard(kind, data)
            else:
                self._complete(id + offset, kind, data, contained)
        if task is not None:
            self._finished(worker, task, micros, values[-1][0] == FAILED)

    def on_retry(self, worker: Worker, id: int, kind: int, data: Any, micros: int) -> None:
        """User code raised an exception that its options allow to be retried."""
        task = worker.in_flight.get(id)
        if task is None or task.cancelled or not task.may_retry():
            self.on_result(worker, id, kind, data, (), micros)
            return
        del worker.in_flight[id]
        task.attempt += 1
        if task.method:
            self._send_calls(task.actor, [task])
        else:
            self._answered.append(worker)
            self.scheduler.requeue(task)

    def _finished(self, worker: Worker, task: Task, micros: int, failed: bool) -> None:
        function = task.function
        self.runs.append(run_of(task, worker, micros, failed))
        if function is None:  # an actor call
            self._close(task)
            return
        if task.actor is not None:
            if task.actor.state == actors.STARTING:
                task.actor.state = actors.ALIVE
            if not task.actor.may_restart():  # nobody needs its arguments again
                self._let_go_of_arguments(task)
                task.args = (INLINE, NONE)
            return
        if not task.cancelled:  # its time says nothing about others
            function.ran(micros)
        if task.plan.max_calls and worker.count_call(function.key) >= task.plan.max_calls:
            worker.doomed = "max_calls"
        self._close(task)
        self._answered.append(worker)

    def _close(self, task: Task) -> None:
        """The task will not run again: let go of what it kept."""
        if task.parent:
            self._forget_child(task)
        if task.dependencies or task.nested:
            self._let_go_of_arguments(task)
        entries = self.engine.entries
        if task.plan.simple:
            entry = entries.get(task.id)
            if entry is not None:
                entry.task = None
        else:
            self._close_returns(task)
        if task.method and task.actor is not None:  # None: it was dead when it was called
            if task.actor.unfinished is not None:
                task.actor.count(task, -1)
            self.counts.drop_entry(task.actor.entry)

    def _forget_child(self, task: Task) -> None:
        siblings = self._children.get(task.parent)
        if siblings is not None:
            siblings.discard(task.id)
            if not siblings:
                del self._children[task.parent]

    def _close_returns(self, task: Task) -> None:
        for id in task.return_ids:
            entry = self.engine.entries.get(id)
            if entry is not None:
                entry.task = None
                if entry.stream is not None:
                    self._finish_stream(entry)

    def _let_go_of_arguments(self, task: Task) -> None:
        for _, entry in task.dependencies:
            self.counts.drop_entry(entry)
        task.dependencies = ()
        if task.nested:
            self.counts.drop(task.nested)
            task.nested = ()

    def refuse(self, task: Task, error: Any) -> None:
        """As `fail`, for a task whose arguments are not kept yet, hence not to be let go of."""
        task.dependencies, task.nested = (), ()
        self.fail(task, error)

    def fail(self, task: Task, error: Any) -> None:
        """Every value of the task is this error (packed)."""
        task.cancelled = True  # so that queues skip it
        self.runs.append(run_of(task, task.worker, 0, True))
        for id in task.return_ids:
            self._complete(id, FAILED, error, ())
        if task.actor is not None and not task.method:
            self._actor_dead(task.actor, error)
        else:
            self._close(task)
            if task.method and task.actor is not None:  # it holds up nobody any more
                self._send_calls(task.actor, task.actor.advance(task))

    # -- losses and cancellation ------------------------------------------------------------

    def not_started(self, task: Task, error: OSError) -> None:
        """The scheduler could have no worker for a task."""
        reason = errors.no_process(errors.system_said(error))
        self.fail(task, errors.packed(errors.not_started(task, reason)))

    def _lost_task(self, worker: Worker, task: Task, alone: bool) -> None:
        if task.cancelled:
            self.fail(task, errors.packed(errors.cancelled(task)))
        elif worker.failure is not None:
            self.fail(task, errors.packed(worker.failure))
        elif not alone and task.plan.retries != 0:
            # Which of them was running is not known: each goes on its own now, uncharged.
            task.solo = True
            self.scheduler.requeue(task)
        elif worker.evicted is not None:
            self._evicted_task(worker.evicted, task)
        elif task.may_retry():
            task.attempt += 1
            self.scheduler.requeue(task)
        else:
            self.fail(task, errors.packed(errors.crashed(worker, task)))

    def _evicted_task(self, eviction: Eviction, task: Task) -> None:
        """Its worker was ended for lack of memory: again, when there may be more, or never."""
        if not eviction.repeat:
            self.fail(task, errors.packed(eviction.error))
            return
        task.worker = None
        self.processes.later(_EVICTED_SECONDS, lambda: self._enqueue_again(task))

    def _enqueue_again(self, task: Task) -> None:
        if not task.cancelled:
            self.scheduler.enqueue(task)

    def on_gave_back(self, worker: Worker, ids: list[int]) -> None:
        """The worker has not started these; those cancelled meanwhile nobody will start."""
        for id in ids:
            task = worker.in_flight.get(id)
            if task is not None and task.cancelled:
                del worker.in_flight[id]
                self.give_up(task)
        self.scheduler.gave_back(worker, ids)

    def give_up(self, task: Task) -> None:
        self.fail(task, errors.packed(errors.cancelled(task)))

    def cancel(self, entry: Entry, force: bool, recursive: bool) -> None:
        task: Task | None = entry.task
        if task is None or entry.kind is not None:
            return
        if recursive:
            for child in list(self._children.get(task.id, ())):
                self._cancel_child(child, force)
        if task.worker is None:
            if not task.cancelled:
                self.fail(task, errors.packed(errors.cancelled(task)))
        elif force and not task.method:
            task.cancelled = True
            self.processes.kill(task.worker)
        elif not task.cancelled:
            task.cancelled = True
            self.processes.send(task.worker, m.CancelWork(task.id))

    def _cancel_child(self, id: int, force: bool) -> None:
        entry = self.engine.entries.get(id)
        if entry is not None and entry.task is not None:
            self.cancel(entry, force and not entry.task.method, True)
