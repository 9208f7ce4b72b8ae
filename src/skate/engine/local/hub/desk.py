"""What workers ask of the hub: to run tasks and actors for them, and everything in `requests`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub import errors
from skate.engine.local.hub.plans import returns
from skate.engine.local.hub.requests import Requests
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.work import Function, Plan, Task
from skate.engine.local.hub.workers import Worker
from skate.engine.local.objects import FAILED, INLINE, STORED

if TYPE_CHECKING:
    from skate.engine.base import CallOptions
    from skate.engine.local.engine import LocalEngine

_LATER = object()  # the answer will be sent when there is one


class Desk:
    """Handles messages of workers that are about others, not about their own work."""

    def __init__(self, engine: LocalEngine, requests: Requests) -> None:
        self._engine = engine
        self._hub = engine.hub
        self._requests = requests
        engine.hub.handlers.update(
            m.by_number(
                {
                    m.SubmitTask: self.on_submit,
                    m.SubmitActor: self.on_create_actor,
                    m.SubmitCall: self.on_call_actor,
                    m.ExportFunction: self.on_export,
                    m.UnexportFunction: self.on_unexport,
                    m.DefineOptions: self.on_options,
                    m.AskHub: self.on_request,
                    m.PrintText: self.on_log,
                    m.ConnectTo: self.on_connect,
                    m.Listening: self.on_listening,
                    m.LostCall: self.on_lost_call,
                    m.PutValueFor: self.on_put_for,
                    m.ReturnLoan: self.on_return,
                }
            )
        )

    # -- work ----------------------------------------------------------------------------------

    def on_export(
        self, worker: Worker, key: int, kind: int, data: Any, name: str, nested: Sequence[int]
    ) -> None:
        uses = data[:65536] if isinstance(data, bytes) else b""
        function = Function(key, kind, data, name, uses)
        self._engine.kept_by_function(function, nested)
        self._hub.functions[key] = function
        worker.exported.add(key)

    def on_unexport(self, worker: Worker, key: int) -> None:
        """Tasks that are under way have the function themselves."""
        worker.exported.discard(key)
        self._hub.functions.pop(key, None)

    def on_options(self, worker: Worker, key: int, packed: Any) -> None:
        if key < 0:  # the worker starts counting anew
            worker.options.clear()
        else:
            worker.options[key] = serialization.loads(packed)

    def on_submit(
        self,
        worker: Worker,
        id: int,
        key: int,
        kind: int,
        data: Any,
        dependencies: Any,
        nested: Sequence[int],
        options_key: int,
        parent: int,
    ) -> None:
        options = worker.options[options_key]
        try:
            plan = self._engine.planner.task_plan(options)
        except Exception as error:
            self._refuse(worker, id, options.num_returns, error)
            return
        task = Task(
            id, self._hub.functions[key], (kind, data), self._entries(dependencies), nested,
            plan, worker, parent,
        )  # fmt: skip
        self._hub.announce(task)
        self._hub.submit(task)

    def on_create_actor(
        self,
        worker: Worker,
        id: int,
        key: int,
        kind: int,
        data: Any,
        dependencies: Any,
        nested: Sequence[int],
        options_key: int,
        meta: Any,
    ) -> None:
        options = worker.options[options_key]
        function = self._hub.functions[key]
        try:
            plan = self._engine.planner.actor_plan(options, serialization.loads(meta))
        except Exception as error:
            self._refuse(worker, id, 1, error)
            return
        task = Task(id, function, (kind, data), self._entries(dependencies), nested, plan, worker)
        self._hub.announce(task)
        self._requests.new_actor(task, options, function.name, meta)

    def on_call_actor(self, worker: Worker, *fields: Any) -> None:
        call = m.SubmitCall(*fields)
        self._call_actor(worker, call, worker.options[call.options_key])

    def _call_actor(self, worker: Worker, call: m.SubmitCall, options: CallOptions) -> None:
        try:
            self._hub.check_pending_calls(call.actor_id, worker.number)
            plan = self._engine.planner.call_plan(call.actor_id, options)
        except Exception as error:
            self._refuse(worker, call.id, options.num_returns, error)
            return
        arguments = self._entries(call.dependencies)
        value = (call.kind, call.data)
        task = Task(call.id, None, value, arguments, call.nested, plan, worker, call.parent)
        task.method = call.method
        self._hub.announce(task)
        self._hub.call_actor(call.actor_id, task)

    def on_lost_call(self, worker: Worker, target: int, call: tuple[Any, ...]) -> None:
        """A call that the worker had sent directly to an actor whose process is gone."""
        callee = self._engine.processes.workers.get(target)
        lost = m.SubmitCall(*call)
        options: CallOptions = worker.options[lost.options_key]  # which holds only for now
        _, count = returns(options.num_returns)
        ids = range(lost.id, lost.id + max(1, count))
        self._hub.counts.hold(worker, ids)
        values = [self._hub.counts.entry(id) for id in ids]

        def lose() -> None:
            answered = all(entry.kind is not None for entry in values)
            if not answered and worker.number in self._engine.processes.workers:
                self._lost_call(worker, lost, options)

        if callee is None:
            lose()
        else:  # the hub has not noticed yet, and may still hear of the values
            callee.when_lost.append(lose)

    def _lost_call(self, worker: Worker, call: m.SubmitCall, options: CallOptions) -> None:
        if self._engine.planner.call_plan(call.actor_id, options).retries:
            self._call_actor(worker, call, options)
        else:
            error = self._hub.why_lost(call.actor_id)
            self._fail(worker, call.id, options.num_returns, error)

    def _entries(self, dependencies: Any) -> list[Any]:
        return [(slot, self._hub.counts.entry(id)) for slot, id in dependencies]

    def _refuse(self, worker: Worker, id: int, num_returns: int | str, error: Exception) -> None:
        self._fail(worker, id, num_returns, errors.packed(error))

    def _fail(self, worker: Worker, id: int, num_returns: int | str, error: Any) -> None:
        """All values of what the worker has asked for are this error."""
        streaming, count = returns(num_returns)
        plan = Plan(None, count, 0, streaming=streaming)
        task = Task(id, None, (INLINE, NONE), (), (), plan, worker)
        self._hub.announce(task)
        self._hub.fail(task, error)

    def on_put_for(
        self, worker: Worker, owner: int, id: int, kind: int, data: Any, contained: Any
    ) -> None:
        """The answer to a direct call, too large or too connected to go directly."""
        caller = self._engine.processes.workers.get(owner)
        if caller is not None:
            self._hub.on_put(caller, id, kind, data, contained)
        elif kind == STORED:
            self._engine.processes.free_segment(data)

    def on_return(self, worker: Worker, id: int) -> None:
        """The worker holds what it was lent."""
        worker.loans.remove(id)
        self._hub.counts.drop((id,))

    # -- direct connections ----------------------------------------------------------------------

    def on_connect(self, worker: Worker, actor_id: int) -> None:
        """The worker wants to talk to an actor directly."""
        actor = self._hub.actors.get(actor_id)
        target = actor.worker if actor is not None else None
        if actor is None or target is None or actor.options.max_pending_calls > 0:
            self._engine.processes.send(worker, m.PeerAddress(actor_id, "", False, 0))
        elif target.listening:
            self._tell_path(worker, target)
        else:
            if not target.wants_peer:
                self._engine.processes.send(target, m.ListenToPeers())
            target.wants_peer.append(worker)

    def on_listening(self, worker: Worker, path: str) -> None:
        worker.listening = path
        for asking in worker.wants_peer:
            self._tell_path(asking, worker)
        worker.wants_peer.clear()

    def _tell_path(self, asking: Worker, target: Worker) -> None:
        actor = target.actor
        self._engine.processes.send(
            asking, m.PeerAddress(actor.id, target.listening, actor.concurrent, target.number)
        )

    # -- output --------------------------------------------------------------------------------

    def on_log(self, worker: Worker, stream: int, label: str, text: str) -> None:
        # Now, so that it is out before the result that follows. Not under the engine's lock: the
        # stream may have one of its own, held by somebody who waits for the engine's.
        self._engine.lock.release()
        try:
            self._engine.output.log(worker.pid, stream, label, text)
        finally:
            self._engine.lock.acquire()

    # -- requests ------------------------------------------------------------------------------

    def on_request(self, worker: Worker, answer: int, method: str, arguments: Any) -> None:
        args = serialization.loads(arguments)
        try:
            special = getattr(self, f"_request_{method}", None)
            if special is not None:
                value = special(worker, answer, *args)
            else:
                value = getattr(self._requests, method)(*args)
        except Exception as error:
            self._answer(worker, answer, FAILED, errors.packed(error))
            return
        if value is not _LATER:
            self._answer(worker, answer, INLINE, serialization.dumps(value).packed())

    def _answer(self, worker: Worker, answer: int, kind: int, data: Any) -> None:
        worker.answered = answer
        self._engine.processes.send(worker, m.TellValue(answer, kind, data))

    def _request_sync(self, worker: Worker, answer: int) -> None:
        """All that was subscribed to and is ready has been sent before this answer."""

    def _request_pin(self, worker: Worker, answer: int, id: int) -> None:
        self._hub.counts.add((id,))

    def _request_make_room(self, worker: Worker, answer: int, size: int) -> Any:
        def spill() -> None:
            freed = self._engine.spilling.free_memory(size)
            with self._engine.lock:
                self._answer(worker, answer, INLINE, serialization.dumps(freed).packed())

        self._engine.reactor.after.append(spill)  # without the lock
        return _LATER

    def _request_create_named_actor(self, worker: Worker, answer: int, *creation: Any) -> Any:
        actor = self._requests.claim_name(worker.options[m.SubmitActor(*creation).options_key])
        if actor is not None:
            return self._lend(worker, actor.id, actor.meta)
        self.on_create_actor(worker, *creation)
        return None

    def _request_get_actor(
        self, worker: Worker, answer: int, name: str, namespace: str | None
    ) -> Any:
        return self._lend(worker, *self._requests.get_actor(name, namespace))

    def _request_create_group(self, worker: Worker, answer: int, id: int, *rest: Any) -> None:
        self._hub.counts.hold(worker, (id,))
        self._requests.create_group(id, *rest, creator=worker)

    def _request_find_group(self, worker: Worker, answer: int, name: str) -> Any:
        return self._lend(worker, *self._requests.find_group(name))

    def _lend(self, worker: Worker, id: int, value: Any) -> tuple[int, Any]:
        """An id that is kept for the worker until it says that it holds it."""
        worker.loans.append(id)
        self._hub.counts.add((id,))
        return id, value

    # -- streams of workers ----------------------------------------------------------------------

    def _request_stream_next(
        self, worker: Worker, answer: int, id: int, index: int, timeout: float | None
    ) -> Any:
        entry = self._hub.counts.entry(id)
        done = False

        def ready() -> None:
            nonlocal done
            if not done:
                done = True
                item = self._hub.take_item(entry, index)
                if item is not None:
                    worker.loans.append(item)  # the stream's own hold becomes the loan
                self._answer(worker, answer, INLINE, serialization.dumps(item).packed())

        def late() -> None:
            nonlocal done
            with self._engine.lock:
                if not done:
                    done = True
                    entry.stream.forget(ready)
                    error = exceptions.GetTimeoutError(f"no item {index} after {timeout} s")
                    self._answer(worker, answer, FAILED, errors.packed(error))

        entry.stream.when_ready(index, ready)
        if timeout is not None and not done:
            self._engine.reactor.call_later(timeout, late)
        return _LATER

    def _request_stream_wait(self, worker: Worker, answer: int, id: int, index: int) -> Any:
        nothing = serialization.dumps(None).packed()
        self._hub.counts.entry(id).stream.when_ready(
            index, lambda: self._answer(worker, answer, INLINE, nothing)
        )
        return _LATER

    def _request_stream_ready(self, worker: Worker, answer: int, id: int, index: int) -> bool:
        return bool(self._hub.counts.entry(id).stream.ready(index))

    def _request_stream_finished(self, worker: Worker, answer: int, id: int, index: int) -> bool:
        return bool(self._hub.counts.entry(id).stream.ended(index))

    def _request_stream_close(self, worker: Worker, answer: int, id: int) -> None:
        self._hub.close_stream(self._hub.counts.entry(id))
