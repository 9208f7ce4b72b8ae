"""Work that workers submit: tasks, actors, calls, and calls that were lost on a direct way."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub import errors
from skate.engine.local.hub.plans import returns
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.work import Dependency, HubTask, WorkPlan
from skate.engine.local.objects import INLINE

if TYPE_CHECKING:
    from skate._core.serialization import Packed
    from skate.engine.local.hub.actor_names import ActorNames
    from skate.engine.local.hub.counts import Counts
    from skate.engine.local.hub.lifecycle import ActorLifecycle
    from skate.engine.local.hub.plans import Planner
    from skate.engine.local.hub.state import State
    from skate.engine.local.hub.tasks import TaskLifecycle
    from skate.engine.local.hub.workers import WorkerProcess
    from skate.engine.specs import CallOptions


class Submissions:
    """Does for workers what the engine does for the driver."""

    def __init__(
        self,
        state: State,
        counts: Counts,
        planner: Planner,
        tasks: TaskLifecycle,
        lifecycle: ActorLifecycle,
        names: ActorNames,
    ) -> None:
        self._state = state
        self._counts = counts
        self._planner = planner
        self._tasks = tasks
        self._lifecycle = lifecycle
        self._names = names

    def on_options(self, worker: WorkerProcess, key: int, packed: Packed | None) -> None:
        """Keep options that the worker will submit work with."""
        if packed is None:  # the worker starts counting anew
            worker.options.clear()
        else:
            worker.options[key] = serialization.loads(packed)

    def on_task(
        self,
        worker: WorkerProcess,
        id: int,
        key: int,
        kind: int,
        data: object,
        dependencies: Sequence[tuple[m.Slot, int]],
        nested: Sequence[int],
        options_key: int,
        parent: int,
    ) -> None:
        """Submit a task of a worker."""
        options = worker.options[options_key]
        try:
            plan = self._planner.task_plan(options)
        except Exception as error:
            self._refuse(worker, id, options.num_returns, error)
            return
        function = self._state.functions[key]
        arguments = self._entries(dependencies)
        task = HubTask(id, function, (kind, data), arguments, nested, plan, worker, parent)
        self._tasks.announce(task)
        self._tasks.submit(task)

    def on_actor(self, worker: WorkerProcess, *fields: Any) -> None:
        """Create an actor of a worker, without a name or with one that is free."""
        made = m.SubmitActor(*fields)
        options = worker.options[made.options_key]
        function = self._state.functions[made.key]
        try:
            meta = serialization.loads(made.meta)
            plan = self._planner.actor_plan(options, meta)
        except Exception as error:
            self._refuse(worker, made.id, 1, error)
            return
        arguments = self._entries(made.dependencies)
        value = (made.kind, made.data)
        task = HubTask(made.id, function, value, arguments, made.nested, plan, worker)
        self._tasks.announce(task)
        self._lifecycle.create(self._names.new_actor(task, options, meta, made.meta))

    def on_call(self, worker: WorkerProcess, *fields: Any) -> None:
        """Call a method of an actor for a worker."""
        call = m.SubmitCall(*fields)
        self._call(worker, call, worker.options[call.options_key])

    def _call(self, worker: WorkerProcess, call: m.SubmitCall, options: CallOptions) -> None:
        try:
            self._lifecycle.check_pending_calls(call.actor_id, worker.number)
            plan = self._planner.call_plan(call.actor_id, options)
        except Exception as error:
            self._refuse(worker, call.id, options.num_returns, error)
            return
        arguments = self._entries(call.dependencies)
        value = (call.kind, call.data)
        task = HubTask(call.id, None, value, arguments, call.nested, plan, worker, call.parent)
        task.method = call.method
        self._tasks.announce(task)
        self._lifecycle.call(call.actor_id, task)

    def on_lost_call(self, worker: WorkerProcess, target: int, call: tuple[Any, ...]) -> None:
        """Retry or fail a call that went directly to an actor whose process is gone."""
        workers = self._state.workers
        callee = workers.get(target)
        lost = m.SubmitCall(*call)
        options: CallOptions = worker.options[lost.options_key]  # which holds only for now
        _, count = returns(options.num_returns)
        ids = range(lost.id, lost.id + max(1, count))
        self._counts.hold(worker, ids)
        values = [self._counts.entry(id) for id in ids]

        def lose() -> None:
            answered = all(entry.kind is not None for entry in values)
            if not answered and worker.number in workers:
                self._lose(worker, lost, options)

        if callee is None:
            lose()
        else:  # the hub has not noticed yet, and may still hear of the values
            callee.when_lost.append(lose)

    def _lose(self, worker: WorkerProcess, call: m.SubmitCall, options: CallOptions) -> None:
        if self._planner.call_plan(call.actor_id, options).retries:
            self._call(worker, call, options)
        else:
            error = self._lifecycle.why_lost(call.actor_id)
            self._fail(worker, call.id, options.num_returns, error)

    def _entries(self, dependencies: Sequence[tuple[m.Slot, int]]) -> list[Dependency]:
        return [(slot, self._counts.entry(id)) for slot, id in dependencies]

    def _refuse(
        self, worker: WorkerProcess, id: int, num_returns: int | str, error: Exception
    ) -> None:
        self._fail(worker, id, num_returns, errors.packed(error))

    def _fail(self, worker: WorkerProcess, id: int, num_returns: int | str, error: Packed) -> None:
        """Make the error all values of what the worker has asked for."""
        streaming, count = returns(num_returns)
        plan = WorkPlan(None, count, 0, streaming=streaming)
        task = HubTask(id, None, (INLINE, NONE), (), (), plan, worker)
        self._tasks.announce(task)
        self._tasks.fail(task, error)
