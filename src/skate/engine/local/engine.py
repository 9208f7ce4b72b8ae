"""The local engine as the driver sees it: the façade's calls, turned into work for the hub."""

from __future__ import annotations

import atexit
import os
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from skate import exceptions
from skate._core import serialization
from skate._core.accelerators import NUMBERED, visible_ids
from skate._core.refs import ObjectRef, ObjectRefGenerator
from skate._core.serialization import Serialized
from skate.engine import install_engine, installed_engine
from skate.engine.base import (
    ActorMeta,
    ActorOptions,
    CallOptions,
    ClassSpec,
    Context,
    FunctionSpec,
    TaskOptions,
)
from skate.engine.local import machine
from skate.engine.local.arguments import Arguments, dump_function, pack
from skate.engine.local.asking import Asking
from skate.engine.local.hub.actors import Actor
from skate.engine.local.hub.desk import Desk
from skate.engine.local.hub.hub import Hub
from skate.engine.local.hub.memory_guard import MemoryGuard
from skate.engine.local.hub.plans import Planner
from skate.engine.local.hub.processes import Processes
from skate.engine.local.hub.requests import Requests
from skate.engine.local.hub.resources import Pool, to_units
from skate.engine.local.hub.scheduler import Scheduler
from skate.engine.local.hub.servers import ForkServer, Servers
from skate.engine.local.hub.spilling import Spilling
from skate.engine.local.hub.streams import Stream
from skate.engine.local.hub.work import Function, Plan, Task
from skate.engine.local.interrupts import Interrupts
from skate.engine.local.objects import (
    DRIVER,
    FAILED,
    INLINE,
    INLINE_LIMIT,
    STORED,
    Entry,
    Objects,
)
from skate.engine.local.output import Output
from skate.engine.local.reactor import Reactor, Waiter
from skate.engine.local.session import Session
from skate.engine.local.store import Store

_TOGETHER = 32  # messages that may be collected before they are written


class LocalEngine(Objects, Asking):
    """Processes and shared memory on this machine; the scheduler lives in this process."""

    name = "local"

    def __init__(
        self,
        session: Session,
        server: ForkServer,
        undo: ExitStack,  # what is to be taken back if the start fails
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: int | None = None,
        resources: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
        object_store_memory: int | None = None,
        namespace: str | None = None,
        runtime_env: Mapping[str, Any] | None = None,
        log_to_driver: bool = True,
        preload: Sequence[str] | None = None,
        growing: bool = False,
        memory_guard: tuple[float, float] = (1.0, 0.0),
    ) -> None:
        super().__init__(DRIVER)
        self.namespace = namespace or os.urandom(8).hex()
        self.job_id = "01000000"
        self.node_id = os.urandom(28).hex()
        self.labels = {"ray.io/node-id": self.node_id, **(labels or {})}
        self.runtime_env = dict(runtime_env or {})
        self.session = session
        self.reactor = Reactor()
        undo.callback(self.reactor.close)
        self.reactor.on_turn = self._tidy
        capacity = object_store_memory or machine.store_capacity(self.session.shm_dir)
        self.store = Store(
            session.shm_dir, session.disk_dir, DRIVER, capacity, self.reactor.call_later
        )
        self.spilling = Spilling(self.store, lambda name: self.processes.recycle(name), self.lock)
        total = self._resources(num_cpus, num_gpus, memory, resources, capacity)
        self.visible_accelerators = {name: visible_ids(name) for name in NUMBERED if name in total}
        self.interrupts = Interrupts(self.reactor, self.lock)
        undo.callback(self.interrupts.close)
        self.output = Output(self.reactor, log_to_driver)
        undo.callback(self.output.close_descriptors)
        servers = Servers(session.dirs, list(preload or ()), server)
        self.processes = Processes(
            self, self._worker_settings(capacity, total), servers, self.output.descriptors
        )
        undo.callback(self.processes.shutdown)
        pool = Pool(total, growing=growing)
        scheduler = Scheduler(pool, max(1, int(total.get("CPU", 0)) // 10_000), self)
        self.hub = Hub(self, scheduler, self.processes, MemoryGuard(self, *memory_guard))
        self.requests = Requests(self)
        Desk(self, self.requests)
        self.planner = Planner(self)
        self._collected = 0  # messages since the last flush
        # By the keys of functions: references in their closures, and where they are stored.
        self._kept_by_functions: dict[int, tuple[Sequence[int], str]] = {}
        self._unexported: deque[int] = deque()  # keys of functions that are gone
        self.closed = False
        if self.runtime_env:
            self.planner.prepare_environment()
        self.reactor.start_courier()
        _engines.add(self)  # last, as is the next: what failed to start is nobody's to end
        atexit.register(self.shutdown)

    def _resources(
        self,
        num_cpus: float | None,
        num_gpus: float | None,
        memory: int | None,
        resources: Mapping[str, float] | None,
        capacity: int,
    ) -> dict[str, int]:
        amounts = {
            "CPU": machine.cpus() if num_cpus is None else num_cpus,
            "GPU": machine.gpus() if num_gpus is None else num_gpus,
            "memory": memory or max(0, machine.memory() - capacity),
            "object_store_memory": capacity,
            "node:127.0.0.1": 1.0,
            "node:__internal_head__": 1.0,
            **(resources or {}),
        }
        return to_units(amounts)

    def _worker_settings(self, capacity: int, total: Mapping[str, int]) -> dict[str, Any]:
        return {
            "session_dir": self.session.dir,
            "session_name": self.session.name,
            "shm_dir": self.session.shm_dir,
            "disk_dir": self.session.disk_dir,
            "capacity": capacity,
            "namespace": self.namespace,
            "job_id": self.job_id,
            "node_id": self.node_id,
            "has_gpus": "GPU" in total,
        }

    @property
    def session_name(self) -> str:  # type: ignore[override]  # see tests/local/test_engine.py
        return self.session.name

    # -- what the scheduler asks for -----------------------------------------------------------

    def start(self, environment: Any, task: Task) -> Any:
        return self.processes.start(environment, task)

    def send(self, worker: Any, task: Task) -> None:
        self.hub.send(worker, task)

    def steal(self, worker: Any) -> None:
        self.processes.steal(worker)

    def retire(self, worker: Any) -> None:
        self.processes.retire(worker)

    def rested(self) -> None:
        self.processes.tidy_later()

    def not_started(self, task: Task, error: OSError) -> None:
        self.hub.not_started(task, error)

    def group_ready(self, group: Any) -> None:
        self.hub.group_ready(group)

    # -- objects -------------------------------------------------------------------------------

    def put(self, value: Any) -> ObjectRef[Any]:
        self.interrupts.look_briefly()
        return self._put(serialization.dumps(value))

    def _put(self, serialized: Serialized) -> ObjectRef[Any]:
        kind, data = self._keep(serialized)
        entry = Entry(self.next_id())
        with self.lock:
            self._own(entry)
            if serialized.refs:
                entry.contained = tuple(self.entry_of(ref).id for ref in serialized.refs)
                self.hub.counts.add(entry.contained)
            self._store_entry(entry, kind, data)
            self.complete(entry, kind, data)
        ref = self.new_ref(entry)
        if self.dropped:
            self.collect()
        if self.interrupts.pending:
            self.interrupts.deliver()
        return ref

    def _keep(self, serialized: Serialized) -> tuple[int, Any]:
        """Small values stay in the message; large ones go to the store."""
        if serialized.size <= INLINE_LIMIT:
            return INLINE, serialized.packed()
        self.collect()
        self.spilling.make_room(serialized.size)
        return STORED, self.store.write(serialized, self.spilling.free_memory)

    def _store_entry(self, entry: Entry, kind: int, data: Any) -> None:
        if kind == STORED:
            self.spilling.added(entry, data)

    def stored(self, entry: Entry, location: Any) -> None:
        """A worker has stored a value."""
        self.spilling.added(entry, location)
        if self.spilling.excess > 0:  # spilled when the lock is free, before more is read
            self.reactor.after.append(self.spilling.settle)

    def remove_free_segments(self, writer: int) -> None:
        """A worker is gone: delete the segments that it kept for its next values."""
        in_use = self.spilling.names_in_memory()
        in_use.update(segment for _, segment in self._kept_by_functions.values())
        self.store.delete_others(writer, in_use)

    def _map(self, entry: Entry, borrow: bool) -> Any:
        mapping = super()._map(entry, borrow)
        with self.lock:
            self.spilling.used(entry)
        return mapping

    def forget_stored(self, entry: Entry) -> None:
        self.spilling.removed(entry)

    def _own(self, entry: Entry) -> None:
        """The driver holds a new entry by the reference that it is about to make."""
        self.entries[entry.id] = entry
        entry.held = True
        entry.count = 1

    def _want(self, entries: Iterable[Entry]) -> None:
        """Nothing to do: all values arrive here by themselves."""

    def _hold(self, entry: Entry) -> None:
        entry.count += 1

    def _release(self, entry: Entry) -> None:
        self.hub.counts.drop_entry(entry)

    def _refetch(self, entry: Entry) -> None:
        with self.lock:
            self.requests.locate(entry.id)

    def pin(self, ref: ObjectRef[Any]) -> None:
        with self.lock:
            self.entry_of(ref).count += 1

    def _tidy(self) -> None:
        if self.dropped:
            self.collect()
        while self._unexported:
            with self.lock:
                self._forget_function(self._unexported.popleft())

    def kept_by_function(self, function: Function, nested: Sequence[int]) -> None:
        """Keep what an exported function needs, for as long as there are tasks of it or someone
        who could send one. The lock is held."""
        self.hub.counts.add(nested)
        segment = function.data[0] if function.kind == STORED else ""
        self._kept_by_functions[function.key] = (nested, segment)
        weakref.finalize(function, self._unexported.append, function.key).atexit = False

    def _forget_function(self, key: int) -> None:
        nested, segment = self._kept_by_functions.pop(key)
        self.hub.forget_function(key)
        self.hub.counts.drop(nested)
        if segment:  # which is not used again: who has run the function may have views on it
            self.store.delete(segment)
            self.processes.recycle(segment)

    # -- tasks ---------------------------------------------------------------------------------

    def submit(
        self,
        function: FunctionSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Any:
        self.interrupts.look_briefly()
        exported = function.exported
        if exported is None or exported[0] is not self:
            exported = self._export(function, function.function, function.name)
        plan = self.planner.task_plan(options)
        packed = pack(args, kwargs, self._put)
        task = self._task(exported[1], packed, plan)
        returned = self._returned(task)
        with self.lock:
            self.hub.submit(task)
        self._write()
        return returned

    def _task(self, function: Function | None, packed: Arguments, plan: Plan) -> Task:
        dependencies = (
            [(slot, self.entry_of(ref)) for slot, ref in packed.dependencies]
            if packed.dependencies
            else ()
        )
        nested = [self.entry_of(ref).id for ref in packed.nested] if packed.nested else ()
        args = (packed.kind, packed.data)
        return Task(self.next_id(), function, args, dependencies, nested, plan, None)

    def _returned(self, task: Task) -> Any:
        """What the caller gets: references to the values that the task will have."""
        if task.plan.simple:
            return self._value_of(task, task.id)
        refs = [self._value_of(task, id) for id in task.return_ids]
        if task.plan.streaming:
            refs[0]._entry.stream = Stream()
            return ObjectRefGenerator(refs[0])
        return refs if task.plan.num_returns else None

    def _value_of(self, task: Task, id: int) -> ObjectRef[Any]:
        entry = Entry(id)
        entry.task = task
        self._own(entry)
        return self.new_ref(entry)

    def _export(self, spec: Any, function: Any, name: str) -> Any:
        serialized = dump_function(function, name)
        kind, data = self._keep(serialized)
        key = self.next_id()
        record = Function(key, kind, data, name, _modules_used(function, serialized.payload))
        with self.lock:
            self.kept_by_function(record, [self.entry_of(ref).id for ref in serialized.refs])
        spec.exported = (self, record)
        return spec.exported

    def _write(self) -> None:
        """Write what a submission has collected: at once if a worker waits for it, otherwise
        together with what follows, at the latest at the courier's next tick."""
        if self.processes.urgent:
            self.processes.urgent = False
            self._collected = 0
            self.reactor.flush()
        elif self.reactor.dirty:
            self._collected += 1
            if self._collected >= _TOGETHER:
                self._collected = 0
                self.reactor.help()
            else:
                self.reactor.touch()
        if self.interrupts.pending:
            self.interrupts.deliver()

    def _tell_all(self) -> None:
        """Objects were completed by this thread: another may wait for them in the reactor."""
        self.reactor.flush()
        self.reactor.interrupt()
        if self.interrupts.pending:
            self.interrupts.deliver()

    def cancel(self, ref: ObjectRef[Any], force: bool, recursive: bool) -> None:
        self.ask("cancel", self.entry_of(ref).id, force, recursive)

    # -- streams -------------------------------------------------------------------------------

    def stream_next(
        self, generator: ObjectRef[Any], index: int, timeout: float | None
    ) -> ObjectRef[Any] | None:
        entry = self.entry_of(generator)
        waiter = Waiter()
        with self.lock:
            entry.stream.when_ready(index, waiter.finish)
        try:
            if not waiter.done and not self._run_until(waiter, timeout):
                raise exceptions.GetTimeoutError(f"no item {index} after {timeout} s")
        finally:
            if not waiter.done:
                with self.lock:
                    entry.stream.forget(waiter.finish)
        with self.lock:
            id = self.hub.take_item(entry, index)
            if id is None:
                return None
            ref = self.adopt(id)
            self.hub.counts.drop((id,))  # the stream's own hold
        self._write()
        return ref

    def stream_ready(self, generator: ObjectRef[Any], index: int) -> bool:
        self.reactor.help()
        return bool(self.entry_of(generator).stream.ready(index))

    def stream_finished(self, generator: ObjectRef[Any], index: int) -> bool:
        self.reactor.help()
        return bool(self.entry_of(generator).stream.ended(index))

    def stream_close(self, generator: ObjectRef[Any], index: int) -> None:
        with self.lock:
            self.hub.close_stream(self.entry_of(generator))
        self._tell_all()

    def stream_abandoned(self, generator: ObjectRef[Any], index: int) -> None:
        """Nothing to do: the generator's reference goes with it, and the stream with that."""

    def add_stream_callback(
        self, generator: ObjectRef[Any], index: int, callback: Callable[[], None]
    ) -> None:
        entry = self.entry_of(generator)
        with self.lock:
            entry.stream.when_ready(index, lambda: self.reactor.after.append(callback))
        self.reactor.interrupt()

    def _watch_item(self, generator: ObjectRef[Any], index: int) -> Entry:
        entry = Entry(self.next_id())
        with self.lock:
            stream = self.entry_of(generator).stream
            stream.when_ready(index, lambda: self.complete(entry, INLINE, None))
        return entry

    # -- actors --------------------------------------------------------------------------------

    def create_actor(
        self,
        cls: ClassSpec,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: ActorOptions,
    ) -> tuple[ObjectRef[Any], ActorMeta]:
        self.interrupts.look_briefly()
        exported = cls.exported
        if exported is None or exported[0] is not self:
            exported = self._export(cls, cls.cls, cls.meta.class_name)
        plan = self.planner.actor_plan(options, cls.meta)
        packed = pack(args, kwargs, self._put)  # its references live until the hub holds them
        task = self._task(exported[1], packed, plan)
        meta = serialization.dumps(cls.meta).packed()
        ref = self._value_of(task, task.id)
        with self.lock:
            existing = self.requests.claim_name(options)
            if existing is not None:
                return self._handle(existing)
            self.requests.new_actor(task, options, cls.meta.class_name, meta)
        self._write()
        return ref, cls.meta

    def _handle(self, actor: Actor) -> tuple[ObjectRef[Any], ActorMeta]:
        return self.adopt(actor.id), serialization.loads(actor.meta)

    def call_actor(
        self,
        actor: ObjectRef[Any],
        method: str,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        options: CallOptions,
    ) -> Any:
        self.interrupts.look_briefly()
        plan = self.planner.call_plan(self.entry_of(actor).id, options)
        packed = pack(args, kwargs, self._put)  # its references live until the hub holds them
        task = self._task(None, packed, plan)
        task.method = method
        with self.lock:
            self.hub.check_pending_calls(actor._id)
            returned = self._returned(task)
            self.hub.call_actor(actor._id, task)
        self._write()
        return returned

    def exit_actor(self) -> None:
        raise TypeError("exit_actor() is for the methods of an actor; this is the driver")

    # -- surroundings --------------------------------------------------------------------------

    def ask(self, method: str, *args: Any) -> Any:
        self.interrupts.look()
        self.collect()
        self.reactor.help()  # what has happened by now is part of the answer
        with self.lock:
            answer = getattr(self.requests, method)(*args)
        self._tell_all()
        return answer

    def given(self, id: int) -> ObjectRef[Any]:
        return self.adopt(id)

    def new_object(self) -> ObjectRef[Any]:
        entry = Entry(self.next_id())
        self._own(entry)
        return self.new_ref(entry)

    def context(self) -> Context:
        return Context(
            job_id=self.job_id,
            node_id=self.node_id,
            worker_id="0" * 56,
            namespace=self.namespace,
            runtime_env=self.runtime_env,
            session_name=self.session.name,
            temp_dir=self.session.dir,
        )

    # -- waiting and life ----------------------------------------------------------------------

    def _while_blocked(self, needs: Any, timeout: float | None) -> bool:
        return self._run_until(needs, timeout)

    def _run_until(self, waiter: Waiter, timeout: float | None) -> bool:
        return self.interrupts.wait(waiter, timeout)

    def shutdown(self) -> None:
        self.interrupts.look()
        with self.interrupts.held():
            self._shut_down()

    def _shut_down(self) -> None:
        if self.closed:
            return
        self.closed = True
        atexit.unregister(self.shutdown)
        with self.lock:
            self._fail_waiters()
        self.reactor.close()
        with self.lock:
            self.hub.close()
            self.processes.shutdown()
            self.store.close()
            self.output.close()
            self.session.remove()
        _engines.discard(self)  # its descriptors have other owners by the time of a fork
        self.interrupts.close()

    def forsake(self) -> None:
        """This is a forked child of the driver: the engine is the parent's, its sockets too."""
        self.closed = True
        self.interrupts.forsake()
        atexit.unregister(self.shutdown)
        if installed_engine() is self:
            install_engine(None)
        self.processes.forsake()
        self.output.close_descriptors()
        self.session.forsake()
        self.reactor.forsake()

    def _fail_waiters(self) -> None:
        """Threads that still wait would wait for ever."""
        awaited = {entry for needs in self._blocked for entry in needs.wanted}
        anonymous = _shut_down("")  # one for all that nobody waits for: there may be very many
        for entry in list(self.entries.values()):
            if entry.kind is None:
                known = entry in awaited or entry.waiters
                error = _shut_down(f"{entry.id:056x}") if known else anonymous
                self.complete(entry, FAILED, error)


def _shut_down(id: str) -> Any:
    """Packed: why there will be no value."""
    error = exceptions.ObjectLostError(id)
    error.reason = "the session was shut down"
    return serialization.dumps(error).packed()


_engines: weakref.WeakSet[LocalEngine] = weakref.WeakSet()


def _after_fork() -> None:
    """Let go of the parent's engines: once, as their descriptors are this child's from now on."""
    engines = list(_engines)
    _engines.clear()
    for engine in engines:
        engine.forsake()


os.register_at_fork(after_in_child=_after_fork)


def _modules_used(function: Any, payload: bytes) -> bytes:
    """Where to look for names of modules: the pickle, and the globals of what is by reference."""
    scope = getattr(function, "__globals__", None)
    if scope is None:
        import sys

        scope = vars(sys.modules.get(getattr(function, "__module__", ""), object))
    names = {getattr(value, "__name__", "") for value in scope.values() if _is_module(value)}
    return payload[:65536] + " ".join(names).encode()


def _is_module(value: Any) -> bool:
    return type(value).__name__ == "module"
