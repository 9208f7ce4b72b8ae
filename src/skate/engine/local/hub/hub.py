"""The hub: connects tasks, actors and objects to processes.

    f.remote() in the driver ─► submit ─► scheduler ─► TASK ─► worker
    get() in the driver      ◄─ complete ◄─ RESULT ◄─────────────┘

Everything here runs in the driver under the engine's lock, on the thread that leads the reactor
or that makes a call. What comes from workers arrives in `received`, in order per worker.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate import _serialization, exceptions
from skate.engine.local import messages as m
from skate.engine.local.hub import actors, errors
from skate.engine.local.hub.actors import Actor
from skate.engine.local.hub.counts import Counts
from skate.engine.local.hub.processes import Processes
from skate.engine.local.hub.scheduler import Scheduler
from skate.engine.local.hub.streams import Stream
from skate.engine.local.hub.work import Function, Task
from skate.engine.local.hub.workers import Worker
from skate.engine.local.objects import FAILED, INLINE, STORED, Entry

if TYPE_CHECKING:
    from skate.engine.local.engine import LocalEngine
    from skate.engine.local.hub.groups import Group

_NONE = _serialization.dumps(None).packed()
_TIMELINE = 10_000  # runs remembered


class Hub:
    """Tasks, actors and objects of one session. See the module docstring."""

    def __init__(self, engine: LocalEngine, scheduler: Scheduler, processes: Processes) -> None:
        self.engine = engine
        self.scheduler = scheduler
        self.processes = processes
        self.actors: dict[int, Actor] = {}
        self.names: dict[tuple[str, str], Actor] = {}
        self.functions: dict[int, Function] = {}
        self.runs: deque[tuple[Task, int, float, int]] = deque(maxlen=_TIMELINE)
        self.removed_groups: dict[int, Group] = {}
        self.deaths: dict[int, Any] = {}  # why actors are dead, for as long as handles ask
        self.counts = Counts(engine.entries, self._free_segment, self._producer_unwanted)
        self._answered: list[Worker] = []
        self.handlers: dict[int, Any] = {
            m.RESULT: self.on_result,
            m.RESULTS: self.on_results,
            m.RETRY: self.on_retry,
            m.SUBSCRIBE: self.on_subscribe,
            m.PUT: self.on_put,
            m.PROMISE: self.on_promise,
            m.ITEM: self.on_item,
            m.EXITING: self.on_exiting,
            m.HOLD: self.counts.hold,
            m.RELEASE: self.counts.release,
            m.BLOCKED: scheduler.block,
            m.UNBLOCKED: scheduler.unblock,
            m.GAVE_BACK: scheduler.gave_back,
        }

    # -- submitting ----------------------------------------------------------------------------

    def announce(self, task: Task) -> None:
        """Make the entries of what a worker's task will return; the worker holds them."""
        assert task.owner is not None
        self.counts.hold(task.owner, task.return_ids)
        for id in task.return_ids:
            self.counts.entry(id).task = task
        if task.plan.streaming:
            self.counts.entry(task.id).stream = Stream()

    def submit(self, task: Task) -> None:
        """Run a task when its arguments and resources are there."""
        assert task.plan.shape is not None
        if task.plan.shape.problem is not None:
            self.fail(task, errors.packed(errors.unschedulable(task, self.scheduler)))
        elif not (task.dependencies or task.nested) or self._arguments_there(task):
            self.scheduler.enqueue(task)

    def create_actor(self, actor: Actor) -> None:
        """Start an actor whose name is free."""
        self.actors[actor.id] = actor
        actor.entry = self.counts.entry(actor.id)
        if actor.name is not None:
            self.names[actor.key] = actor
        if actor.options.detached:
            self.counts.add((actor.id,))
        self.submit(actor.creation)

    def check_pending_calls(self, actor_id: int) -> None:
        """Raise PendingCallsLimitExceeded if the actor must not get another call now."""
        actor = self.actors.get(actor_id)
        if actor is not None and 0 < actor.options.max_pending_calls <= actor.unfinished:
            raise exceptions.PendingCallsLimitExceeded(
                f"{actor.class_name} has {actor.unfinished} unfinished calls, and "
                f"max_pending_calls={actor.options.max_pending_calls}"
            )

    def call_actor(self, actor_id: int, task: Task) -> None:
        """Call a method of an actor, which may be dead by now."""
        actor = self.actors.get(actor_id)
        if actor is None:
            self.fail(task, self._why_dead(actor_id))
            return
        task.actor = actor
        actor.entry.count += 1  # a call keeps its actor alive
        if task.dependencies or task.nested:
            self._arguments_there(task)
            if task.cancelled:
                actor.unfinished += 1  # as `_close` will count it off
                return
        self._send_calls(actor, actor.add_call(task))

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
            self._argument_failed(task, failed.data)
            return False
        return not task.missing

    def _argument_came(self, task: Task, entry: Entry) -> None:
        task.missing -= 1
        if task.cancelled:
            return
        if entry.kind == FAILED:
            self._argument_failed(task, entry.data)
        elif not task.missing:
            if task.actor is not None and task.method:
                self._send_calls(task.actor, task.actor.arguments_ready(task))
            else:
                self.scheduler.enqueue(task)

    def _argument_failed(self, task: Task, error: Any) -> None:
        if task.actor is not None and not task.method:
            error = errors.packed(exceptions.ActorDiedError(_serialization.loads(error)))
        self.fail(task, error)

    # -- sending -------------------------------------------------------------------------------

    def send(self, worker: Worker, task: Task) -> None:
        """The scheduler has chosen a worker for a task."""
        function = task.function
        assert function is not None
        self._ensure_function(worker, function)
        kind, data = task.args
        arguments = self._dependency_values(task) if task.dependencies else None
        extra = self._extra(worker, task)
        if task.actor is not None:
            worker.actor = task.actor
            self.processes.send(
                worker, (m.CREATE, task.id, function.key, kind, data, arguments, extra)
            )
            self._send_calls(task.actor, task.actor.placed(worker))
        else:
            message = (
                m.TASK, task.id, function.key, kind, data, arguments, task.plan.num_returns, extra,
            )  # fmt: skip
            # The first task of a worker goes at once; those behind it go together.
            self.processes.send(worker, message, at_once=len(worker.in_flight) == 1)

    def _send_calls(self, actor: Actor, tasks: Sequence[Task]) -> None:
        for task in tasks:
            worker = actor.worker
            assert worker is not None
            task.worker = worker
            worker.in_flight[task.id] = task
            kind, data = task.args
            arguments = self._dependency_values(task) if task.dependencies else None
            plan = task.plan
            self.processes.send(
                worker,
                (
                    m.CALL,
                    task.id,
                    task.method,
                    kind,
                    data,
                    arguments,
                    plan.num_returns,
                    plan.extra,
                ),
                len(worker.in_flight) == 1,
            )

    def _ensure_function(self, worker: Worker, function: Function) -> None:
        if function.key not in worker.functions:
            worker.functions.add(function.key)
            message = (m.FUNCTION, function.key, function.kind, function.data, function.name)
            self.processes.send(worker, message, at_once=False)

    def _dependency_values(self, task: Task) -> list[tuple[Any, ...]]:
        return [(slot, e.kind, e.data, e.id) for slot, e in task.dependencies]

    def _extra(self, worker: Worker, task: Task) -> Any:
        extra = task.plan.extra
        allocation = worker.allocation
        if allocation is not None and allocation.gpus:
            extra = {**(extra or {}), "gpu_ids": allocation.gpu_ids}
        if task.actor is not None and task.actor.restarts:
            extra = {**(extra or {}), "restarted": True}
        return extra

    # -- receiving -----------------------------------------------------------------------------

    def received(self, worker: Worker, incoming: Sequence[tuple[Any, ...]]) -> None:
        """Messages of a worker, in order."""
        for message in incoming:
            self.handlers[message[0]](worker, *message[1:])
        while self._answered:
            self.scheduler.refill(self._answered.pop())

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
        self._finished(worker, task, micros)

    def _failed(self, task: Task, id: int, error: Any) -> None:
        entry = self.engine.entries.get(id)
        if task.actor is not None and not task.method:
            self._construction_failed(task.actor, error)
        elif entry is not None and entry.stream is not None:
            self._add_error(entry.stream, error)  # which is told there, and only there
            self._complete(id, INLINE, _NONE, ())
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
            self._finished(worker, task, micros)

    def on_retry(self, worker: Worker, id: int, kind: int, data: Any, micros: int) -> None:
        """User code raised an exception that its options allow to be retried."""
        task = worker.in_flight[id]
        if task.cancelled or not task.may_retry():
            self.on_result(worker, id, kind, data, (), micros)
            return
        del worker.in_flight[id]
        task.attempt += 1
        if task.method:
            self._send_calls(task.actor, [task])
        else:
            self._answered.append(worker)
            self.scheduler.requeue(task)

    def _finished(self, worker: Worker, task: Task, micros: int) -> None:
        self.runs.append((task, worker.pid, time.time(), micros))
        function = task.function
        if function is None:  # an actor call
            self._close(task)
            return
        if task.actor is not None:
            if task.actor.state == actors.STARTING:
                task.actor.state = actors.ALIVE
            return  # its arguments may serve for restarts
        function.ran(micros)
        if task.plan.max_calls and worker.count_call(function.key) >= task.plan.max_calls:
            worker.doomed = "max_calls"
        self._close(task)
        self._answered.append(worker)

    def _close(self, task: Task) -> None:
        """The task will not run again: let go of what it kept."""
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
            task.actor.unfinished -= 1
            self.counts.drop_entry(task.actor.entry)

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

    def _complete(self, id: int, kind: int, data: Any, contained: Sequence[int]) -> None:
        entry = self.engine.entries.get(id)
        if entry is None or entry.kind is not None:
            self._discard(kind, data)
            return
        if contained:
            self.counts.add(contained)
            entry.contained = contained
        if kind == STORED:
            self.engine.stored(entry, data)
        self.engine.complete(entry, kind, data)

    def _discard(self, kind: int, data: Any) -> None:
        if kind == STORED:
            self.processes.free_segment(data)

    def fail(self, task: Task, error: Any) -> None:
        """Every value of the task is this error (packed)."""
        task.cancelled = True  # so that queues skip it
        for id in task.return_ids:
            self._complete(id, FAILED, error, ())
        if task.actor is not None and not task.method:
            self._actor_dead(task.actor, error)
        else:
            self._close(task)

    # -- objects -------------------------------------------------------------------------------

    def on_subscribe(self, worker: Worker, ids: Sequence[int]) -> None:
        """The worker wants the values, each as soon as it is there."""
        for id in ids:
            entry = self.counts.entry(id)
            self.engine.on_complete(entry, lambda entry: self._tell_value(worker, entry))

    def _tell_value(self, worker: Worker, entry: Entry) -> None:
        self.processes.send(worker, (m.VALUE, entry.id, entry.kind, entry.data))

    def on_put(self, worker: Worker, id: int, kind: int, data: Any, contained: Any) -> None:
        worker.promised.discard(id)
        self.counts.hold(worker, (id,))
        self._complete(id, kind, data, contained)

    def on_promise(self, worker: Worker, ids: Sequence[int]) -> None:
        worker.promised.update(ids)
        self.counts.hold(worker, ids)

    def _free_segment(self, entry: Entry) -> None:
        self.engine.forget_stored(entry)
        self.processes.free_segment(entry.data)

    def _producer_unwanted(self, entry: Entry) -> None:
        """Nobody can ask for the entry any more; what stands behind it may end."""
        if entry.stream is not None:
            self._abandon_stream(entry)
        task = entry.task
        if task is not None and task.actor is not None and not task.method:
            self._terminate(task.actor)
            self.deaths.pop(entry.id, None)

    # -- streams -------------------------------------------------------------------------------

    def on_item(
        self, worker: Worker, task_id: int, index: int, id: int, kind: int, data: Any, inner: Any
    ) -> None:
        stream = self._stream(task_id)
        if stream is None or stream.abandoned or index < stream.produced:
            self._discard(kind, data)
            return
        self.counts.add((id,))  # kept by the stream until it is taken
        self._complete(id, kind, data, inner)
        stream.add(index, id)

    def _stream(self, task_id: int) -> Stream | None:
        entry = self.engine.entries.get(task_id)
        return entry.stream if entry is not None else None

    def _finish_stream(self, entry: Entry) -> None:
        stream: Stream = entry.stream
        if entry.kind == FAILED:
            self._add_error(stream, entry.data)
        stream.finish()

    def _add_error(self, stream: Stream, error: Any) -> None:
        """As the last item."""
        if not stream.abandoned and not stream.finished:
            id = self.engine.next_id()
            self.counts.add((id,))
            self._complete(id, FAILED, error, ())
            stream.add(stream.produced, id)

    def take_item(self, entry: Entry, index: int) -> int | None:
        """The id of an item that is there, now the caller's to hold; None at the end."""
        id: int | None = entry.stream.items.pop(index, None)
        task = entry.task
        if id is not None and task is not None and task.worker is not None:
            if task.plan.extra and task.plan.extra.get("backpressure"):
                self.processes.send(task.worker, (m.CREDIT, task.id, index + 1))
        return id

    def _abandon_stream(self, entry: Entry) -> None:
        stream: Stream = entry.stream
        stream.abandoned = True
        items, stream.items = stream.items, {}
        self.counts.drop(items.values())
        task = entry.task
        if task is not None and task.worker is not None and not stream.finished:
            self.processes.send(task.worker, (m.CREDIT, task.id, -1))

    def close_stream(self, entry: Entry) -> None:
        if entry.stream is not None and not entry.stream.abandoned:
            self._abandon_stream(entry)

    # -- actors --------------------------------------------------------------------------------

    def _construction_failed(self, actor: Actor, error: Any) -> None:
        actor.stop_reason = "its constructor failed"
        cause = _serialization.loads(error)
        died = exceptions.ActorDiedError(cause)
        worker = actor.worker
        self._actor_dead(actor, errors.packed(died))
        if worker is not None:
            self.processes.retire(worker)

    def _terminate(self, actor: Actor) -> None:
        """The last handle is gone and nothing is under way."""
        if actor.state != actors.DEAD:
            actor.stop_reason = "all handles to it are gone"
            worker = actor.worker
            self._actor_dead(actor, errors.packed(errors.actor_died(actor, actor.stop_reason)))
            if worker is not None:
                self.processes.retire(worker)
            else:
                self.scheduler.withdraw(actor.creation)

    def kill_actor(self, actor: Actor, no_restart: bool) -> None:
        if actor.state == actors.DEAD:
            return
        if no_restart:
            actor.stop_reason = "it was killed by skate.kill(actor)"
        if actor.worker is not None:
            self.processes.kill(actor.worker)
            if no_restart:
                self._lose_actor(actor, actor.worker, actor.stop_reason)
        elif no_restart:
            self.scheduler.withdraw(actor.creation)
            self._actor_dead(actor, errors.packed(errors.actor_died(actor, actor.stop_reason)))

    def on_exiting(self, worker: Worker) -> None:
        """exit_actor() or __ray_terminate__: a wanted end."""
        if worker.actor is not None:
            worker.actor.stop_reason = "it ended itself with exit_actor()"

    def _lose_actor(self, actor: Actor, worker: Worker, reason: str) -> None:
        calls = [task for task in worker.in_flight.values() if task.method]
        worker.in_flight.clear()
        if actor.may_restart():
            for task in actor.restarting(calls):
                self.fail(task, errors.packed(errors.actor_unavailable(actor, reason)))
            self.scheduler.enqueue(actor.creation)
            return
        error = errors.packed(errors.actor_died(actor, actor.stop_reason or reason))
        for task in calls:
            self.fail(task, error)
        self._actor_dead(actor, error)

    def _actor_dead(self, actor: Actor, error: Any) -> None:
        if actor.state == actors.DEAD:
            return
        worker = actor.worker
        in_flight = worker.in_flight if worker is not None else {}
        sent = [task for task in in_flight.values() if task.method]
        for task in actor.died(error):
            self.fail(task, error)
        for task in sent:
            if in_flight.pop(task.id, None) is not None:
                self.fail(task, error)
        self.deaths[actor.id] = error
        self._complete(actor.id, FAILED, error, ())
        if self.names.get(actor.key) is actor:
            del self.names[actor.key]
        self._let_go_of_arguments(actor.creation)
        if actor.options.detached:
            self.counts.drop((actor.id,))
        self.actors.pop(actor.id, None)

    def why_lost(self, actor_id: int) -> Any:
        """The error of a call that was under way when its actor's process died."""
        actor = self.actors.get(actor_id)
        if actor is None:
            return self._why_dead(actor_id)
        return errors.packed(errors.actor_unavailable(actor, "its process died"))

    def _why_dead(self, actor_id: int) -> Any:
        return self.deaths.get(actor_id) or errors.packed(exceptions.ActorDiedError())

    # -- worker death --------------------------------------------------------------------------

    def worker_lost(self, worker: Worker) -> None:
        """The process is gone, and everything that it had sent has been handled."""
        reason = errors.how_it_ended(worker)
        actor = worker.actor
        if actor is not None and actor.worker is worker:
            self._lose_actor(actor, worker, reason)
        tasks = self.scheduler.remove(worker)
        alone = len(tasks) == 1
        for task in reversed(tasks):
            self._lost_task(worker, task, alone)
        owner_died = errors.packed(exceptions.OwnerDiedError(f"worker {worker.pid}", None, reason))
        for id in worker.promised:
            self._complete(id, FAILED, owner_died, ())
        self.counts.release(worker, list(worker.holds))
        for follow_up in worker.when_lost:
            follow_up()
        self.scheduler.dispatch_all()

    def _lost_task(self, worker: Worker, task: Task, alone: bool) -> None:
        if task.cancelled:
            self.fail(task, errors.packed(errors.cancelled(task)))
        elif not alone:
            # Which of them was running is not known: each goes on its own now, uncharged.
            task.solo = True
            self.scheduler.requeue(task)
        elif task.may_retry():
            task.attempt += 1
            self.scheduler.requeue(task)
        else:
            self.fail(task, errors.packed(errors.crashed(worker, task)))

    # -- cancellation --------------------------------------------------------------------------

    def cancel(self, entry: Entry, force: bool, recursive: bool) -> None:
        task: Task | None = entry.task
        if task is None or entry.kind is not None or task.cancelled:
            return
        if recursive:
            self._cancel_children(task.id, force)
        if task.worker is None:
            if not task.method:
                self.scheduler.withdraw(task)
            self.fail(task, errors.packed(errors.cancelled(task)))
            return
        task.cancelled = True
        if force and not task.method:
            self.processes.kill(task.worker)
        else:
            self.processes.send(task.worker, (m.CANCEL, task.id))

    def _cancel_children(self, parent: int, force: bool) -> None:
        entries = list(self.engine.entries.values())
        for entry in entries:
            task = entry.task
            if task is not None and task.parent == parent and entry.id == task.id:
                self.cancel(entry, force and not task.method, True)

    # -- groups --------------------------------------------------------------------------------

    def group_ready(self, group: Group) -> None:
        self._complete(group.id, INLINE, _NONE, ())

    def remove_group(self, group: Group) -> None:
        def inside(shape: Any) -> bool:
            return shape is not None and shape.group is group

        for task in self.scheduler.drop_shapes(inside):
            self.fail(task, errors.packed(errors.group_removed(task)))
        for worker in list(self.processes.workers.values()):
            if inside(worker.shape):
                self._end_in_group(worker)
        if group.state == "CREATED":
            group.give_back(self.scheduler.machine)
        group.state = "REMOVED"
        self._complete(group.id, FAILED, errors.packed(ValueError("the group was removed")), ())
        self.scheduler.dispatch_all()

    def _end_in_group(self, worker: Worker) -> None:
        for task in list(worker.in_flight.values()):
            if not task.method:
                worker.in_flight.pop(task.id)
                self.fail(task, errors.packed(errors.group_removed(task)))
        if worker.actor is not None:
            worker.actor.stop_reason = "its placement group was removed"
        self.processes.kill(worker)
