"""Tasks and calls: waiting for arguments, answers, retries, failures, cancellation."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from skate.engine.local import messages as m
from skate.engine.local.hub import actors, errors
from skate.engine.local.hub.streams import ItemStream
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.work import HubTask, run_of
from skate.engine.local.objects import FAILED, INLINE, ObjectEntry

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actors import HubActor
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.dispatch import Dispatch, WorkerOutbox
    from skate.engine.local.hub.memory_guard import Eviction
    from skate.engine.local.hub.ports import Ports
    from skate.engine.local.hub.scheduler import Scheduler
    from skate.engine.local.hub.state import State
    from skate.engine.local.hub.streaming import Streaming
    from skate.engine.local.hub.values import Values
    from skate.engine.local.hub.workers import WorkerProcess

_EVICTED_SECONDS = 1.0  # before a task is tried again that was ended for lack of memory
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 1.0  # before one that has raised repeatedly


class TaskEvents(Protocol):
    """What tasks ask of the rest of the hub."""

    def construction_failed(self, actor: HubActor, error: Packed) -> None: ...
    def actor_dead(self, actor: HubActor, error: Packed) -> None: ...
    def kill(self, worker: WorkerProcess) -> None: ...


class TaskLifecycle:
    """The way of a task from its submission to its answer."""

    def __init__(
        self,
        ports: Ports,
        state: State,
        values: Values,
        streaming: Streaming,
        counts: Counts,
        scheduler: Scheduler,
        dispatch: Dispatch,
        outbox: WorkerOutbox,
        events: TaskEvents,
    ) -> None:
        self._ports = ports
        self._state = state
        self._entries = state.entries
        self._runs = state.runs
        self._answered = state.answered
        self._values = values
        self._streaming = streaming
        self._counts = counts
        self._scheduler = scheduler
        self._dispatch = dispatch
        self._outbox = outbox
        self._events = events

    # -- submitting ----------------------------------------------------------------------------

    def announce(self, task: HubTask) -> None:
        """Make the entries of what a worker's task will return; the worker holds them."""
        assert task.owner is not None
        self._counts.hold(task.owner, task.return_ids)
        for id in task.return_ids:
            self._counts.entry(id).task = task
        if task.plan.streaming:
            self._counts.entry(task.id).stream = ItemStream()
        if task.parent:
            self._state.children.setdefault(task.parent, set()).add(task.id)

    def submit(self, task: HubTask) -> None:
        """Run a task when its arguments and resources are there."""
        assert task.plan.shape is not None
        if task.plan.shape.problem is not None:
            self.refuse(task, errors.packed(errors.unschedulable(task, self._scheduler)))
        elif not (task.dependencies or task.nested) or self.keep_arguments(task):
            self._scheduler.enqueue(task)

    def keep_arguments(self, task: HubTask) -> bool:
        """Keep the arguments alive; False if the task must wait for one, or has failed."""
        if task.nested:
            self._counts.add(task.nested)
        failed = None
        for _, entry in task.dependencies:
            entry.count += 1
            if entry.kind is None:
                task.missing += 1
                self._ports.on_complete(entry, lambda entry: self._argument_came(task, entry))
            elif entry.kind == FAILED:
                failed = entry
        if failed is not None:
            failed.read = True
            self.fail(task, errors.argument_failed(task, failed.data))
            return False
        if not task.missing:
            return True
        self._state.without_arguments.add(task)
        return False

    def _argument_came(self, task: HubTask, entry: ObjectEntry) -> None:
        task.missing -= 1
        if not task.missing:
            self._state.without_arguments.discard(task)
        if task.cancelled:
            return
        if entry.kind == FAILED:
            entry.read = True
            self.fail(task, errors.argument_failed(task, entry.data))
        elif not task.missing:
            if task.actor is not None and task.method:
                self._dispatch.send_calls(task.actor, task.actor.advance(task))
            else:
                self._scheduler.enqueue(task)

    # -- answers -------------------------------------------------------------------------------

    def on_result(
        self,
        worker: WorkerProcess,
        id: int,
        kind: int,
        data: Any,
        contained: Sequence[int],
        micros: int,
    ) -> None:
        """Complete a task with its one value."""
        task = worker.in_flight.pop(id, None)
        if task is None:
            self._values.discard(kind, data)
            return
        if kind == FAILED:
            self._failed(task, id, data)
        else:
            self._values.complete(id, kind, data, contained)
        self._finished(worker, task, micros, kind == FAILED)

    def _failed(self, task: HubTask, id: int, error: Packed) -> None:
        self._state.remember_failure(task, error)
        entry = self._entries.get(id)
        if task.actor is not None and not task.method:
            self._events.construction_failed(task.actor, error)
        elif entry is not None and entry.stream is not None:
            if task.cancelled:
                self._values.fail_from_now_on(id, error)  # the last item will be that error, too
            else:
                self._streaming.add_error(
                    entry.stream, error
                )  # which is told there, and only there
                self._values.complete_with_none(id)
        else:
            for each in task.return_ids:  # several, where the last retry of such a task failed
                self._values.complete(each, FAILED, error)

    def on_results(
        self, worker: WorkerProcess, id: int, values: Sequence[m.WorkerValue], micros: int
    ) -> None:
        """Complete a task that returns several values."""
        task = worker.in_flight.pop(id, None)
        kind, data = INLINE, NONE
        for offset, (kind, data, contained) in enumerate(values):
            if task is None:
                self._values.discard(kind, data)
            else:
                self._values.complete(id + offset, kind, data, contained)
        if task is not None:
            if kind == FAILED:
                self._state.remember_failure(task, data)
            self._finished(worker, task, micros, kind == FAILED)

    def on_retry(
        self, worker: WorkerProcess, id: int, kind: int, data: Packed, micros: int
    ) -> None:
        """Retry a task that raised what its options allow to be retried."""
        task = worker.in_flight.get(id)
        if task is None or task.cancelled or not task.may_retry():
            if task is not None and task.cancelled and task.may_retry():
                data = errors.packed(errors.cancelled(task))  # not what a retry would have mended
            self.on_result(worker, id, kind, data, (), micros)
            return
        del worker.in_flight[id]
        self._state.remember_failure(task, data)
        self._try_again(worker, task, micros)
        if task.method:
            assert task.actor is not None
            self._dispatch.send_calls(task.actor, [task])
        else:
            self._answered.append(worker)
            self._requeue_after_a_pause(task)

    def _requeue_after_a_pause(self, task: HubTask) -> None:
        """Queue a task again: at once if it has failed once, later and later if it goes on
        failing."""
        if task.attempt == 1:
            self._scheduler.requeue(task)
            return
        task.worker = None
        doubled = _FIRST_PAUSE_SECONDS * 2 ** min(task.attempt - 2, 10)
        pause = min(doubled, _LONGEST_PAUSE_SECONDS)
        self._ports.call_later(pause, lambda: self._enqueue_again(task))

    def _try_again(self, worker: WorkerProcess, task: HubTask, micros: int) -> None:
        self._runs.append(run_of(task, worker, micros, True))
        self._state.ended_tasks += 1
        task.attempt += 1

    def _finished(self, worker: WorkerProcess, task: HubTask, micros: int, failed: bool) -> None:
        function = task.function
        self._runs.append(run_of(task, worker, micros, failed))
        self._state.ended_tasks += 1
        if function is None:  # an actor call
            self._close(task)
            return
        if task.actor is not None:
            self._constructed(task.actor)
            return
        if not task.cancelled:  # its time says nothing about others
            function.ran(micros)
        if task.plan.max_calls and worker.count_call(function.key) >= task.plan.max_calls:
            worker.ending = errors.MAX_CALLS
        self._close(task)
        self._answered.append(worker)

    def _constructed(self, actor: HubActor) -> None:
        if actor.state == actors.STARTING:
            actor.state = actors.ALIVE
        if not actor.may_restart():  # nobody needs its arguments again
            self.let_go_of_arguments(actor.creation)
            actor.creation.args = (INLINE, NONE)

    # -- the end of a task ---------------------------------------------------------------------

    def _close(self, task: HubTask) -> None:
        """Let go of what a task kept that will not run again."""
        if task.parent:
            self._forget_child(task)
        if task.dependencies or task.nested:
            self.let_go_of_arguments(task)
        if task.plan.simple:
            entry = self._entries.get(task.id)
            if entry is not None:
                entry.task = None
        else:
            self._close_returns(task)
        if task.method and task.actor is not None:  # None: it was dead when it was called
            if task.actor.unfinished is not None:
                task.actor.count(task, -1)
            self._counts.drop_entry(task.actor.entry)

    def _forget_child(self, task: HubTask) -> None:
        siblings = self._state.children.get(task.parent)
        if siblings is not None:
            siblings.discard(task.id)
            if not siblings:
                del self._state.children[task.parent]

    def _close_returns(self, task: HubTask) -> None:
        for id in task.return_ids:
            entry = self._entries.get(id)
            if entry is not None:
                entry.task = None
                if entry.stream is not None:
                    self._streaming.finish(entry)

    def let_go_of_arguments(self, task: HubTask) -> None:
        """Release what `keep_arguments` has kept."""
        for _, entry in task.dependencies:
            self._counts.drop_entry(entry)
        task.dependencies = ()
        if task.nested:
            self._counts.drop(task.nested)
            task.nested = ()

    def refuse(self, task: HubTask, error: Packed) -> None:
        """Fail a task whose arguments are not kept yet, hence not to be let go of."""
        task.dependencies, task.nested = (), ()
        self.fail(task, error)

    def fail(self, task: HubTask, error: Packed, as_failed: bool = True) -> None:
        """Make the error every value of the task, which is listed `as_failed` or not."""
        task.cancelled = True  # so that queues skip it
        self._runs.append(run_of(task, task.worker, 0, as_failed))
        self._state.ended_tasks += 1
        if as_failed:
            self._state.remember_failure(task, error)
        for id in task.return_ids:
            self._values.complete(id, FAILED, error)
        if task.actor is not None and not task.method:
            self._events.actor_dead(task.actor, error)
        else:
            self._close(task)
            if task.method and task.actor is not None:  # it holds up nobody any more
                self._dispatch.send_calls(task.actor, task.actor.advance(task))

    def not_started(self, task: HubTask, error: OSError) -> None:
        """Fail a task for which the scheduler could have no worker."""
        reason = errors.no_process(errors.system_said(error))
        self.fail(task, errors.packed(errors.not_started(task, reason)))

    # -- losses --------------------------------------------------------------------------------

    def lose_all(self, worker: WorkerProcess) -> None:
        """Retry or fail what was with a worker that is gone."""
        tasks = self._scheduler.remove(worker)
        alone = len(tasks) == 1
        for task in reversed(tasks):
            self._lose(worker, task, alone)

    def _lose(self, worker: WorkerProcess, task: HubTask, alone: bool) -> None:
        if task.cancelled:
            self.fail(task, errors.packed(errors.cancelled(task)))
        elif worker.failure is not None:
            self.fail(task, errors.packed(worker.failure))
        elif not alone and task.plan.retries != 0:
            # Which of them was running is not known: each goes on its own now, uncharged.
            task.solo = True
            self._scheduler.requeue(task)
        elif worker.evicted is not None:
            self._evicted(worker.evicted, task)
        elif task.may_retry():
            self._state.remember_failure(task, errors.packed(errors.crashed(worker, task)))
            self._try_again(worker, task, 0)
            self._scheduler.requeue(task)
        else:
            self.fail(task, errors.packed(errors.crashed(worker, task)))

    def _evicted(self, eviction: Eviction, task: HubTask) -> None:
        """Try it again when there may be more memory, or never."""
        if not eviction.repeat:
            self.fail(task, errors.packed(eviction.error))
            return
        task.worker = None
        self._ports.call_later(_EVICTED_SECONDS, lambda: self._enqueue_again(task))

    def _enqueue_again(self, task: HubTask) -> None:
        if not task.cancelled:
            self._scheduler.enqueue(task)

    # -- cancellation --------------------------------------------------------------------------

    def on_gave_back(self, worker: WorkerProcess, ids: list[int]) -> None:
        """Give to others what a worker has not started, except what was cancelled meanwhile."""
        for id in ids:
            task = worker.in_flight.get(id)
            if task is not None and task.cancelled:
                del worker.in_flight[id]
                self.give_up(task)
        self._scheduler.gave_back(worker, ids)

    def give_up(self, task: HubTask) -> None:
        """Fail a task that nobody will start, as cancelled."""
        self.fail(task, errors.packed(errors.cancelled(task)))

    def cancel(self, entry: ObjectEntry, force: bool, recursive: bool) -> None:
        """Cancel what will produce an object, and what that has submitted if `recursive`."""
        task = entry.task
        if task is None or entry.kind is not None:
            return
        if recursive:
            for child in list(self._state.children.get(task.id, ())):
                self._cancel_child(child, force)
        if task.worker is None:
            if not task.cancelled:
                self.give_up(task)
        elif force and not task.method:
            task.cancelled = True
            self._events.kill(task.worker)
        elif not task.cancelled:
            task.cancelled = True
            self._outbox.send(task.worker, m.CancelWork(task.id))

    def _cancel_child(self, id: int, force: bool) -> None:
        entry = self._entries.get(id)
        if entry is not None and entry.task is not None:
            self.cancel(entry, force and not entry.task.method, True)
