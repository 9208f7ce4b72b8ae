"""The local engine as the driver sees it: the façade's calls, turned into work for the hub."""

from __future__ import annotations

import atexit
import os
import weakref
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import Any

from skate import exceptions
from skate._core import serialization
from skate._core.refs import ObjectRef, ObjectRefGenerator
from skate._core.serialization import Serialized
from skate.engine import end_with_program, install_engine, installed_engine
from skate.engine.local import machine
from skate.engine.local.arguments import PackedArguments, dump_function, modules_used, pack
from skate.engine.local.asking import Asking, described
from skate.engine.local.driver_streams import DriverStreams
from skate.engine.local.hub.actors import HubActor
from skate.engine.local.hub.hub import Hub
from skate.engine.local.hub.ports import Ports
from skate.engine.local.hub.resources import ResourcePool, to_units
from skate.engine.local.hub.servers import ForkServer, Servers
from skate.engine.local.hub.spilling import Spilling
from skate.engine.local.hub.state import SessionFacts, facts_of_session
from skate.engine.local.hub.streams import ItemStream
from skate.engine.local.hub.work import ExportedFunction, HubTask, WorkPlan
from skate.engine.local.inspection.driver import of_driver
from skate.engine.local.interrupts import Interrupts
from skate.engine.local.objects import (
    DRIVER,
    FAILED,
    INLINE,
    INLINE_LIMIT_BYTES,
    STORED,
    ObjectEntry,
)
from skate.engine.local.output import Output
from skate.engine.local.reactor import Reactor
from skate.engine.local.session import SessionFiles
from skate.engine.local.store import Store
from skate.engine.specs import (
    ActorMeta,
    ActorOptions,
    CallOptions,
    ClassSpec,
    Context,
    FunctionSpec,
    TaskOptions,
)

_MOST_TOGETHER = 32  # messages that may be collected before they are written


class LocalEngine(DriverStreams, Asking):
    """Processes and shared memory on this machine; the scheduler lives in this process."""

    name = "local"

    def __init__(
        self,
        session: SessionFiles,
        light: ForkServer | None,
        undo: ExitStack,  # what is to be taken back if the start fails
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: int | None = None,
        resources: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
        object_store_memory: int | None = None,
        namespace: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
        log_to_driver: bool = True,
        log_prefix: bool = True,
        preload: Sequence[str] | None = None,
        growing: bool = False,
        warm: ForkServer | None = None,
        memory_guard: tuple[float, float] = (1.0, 0.0),
    ) -> None:
        super().__init__(DRIVER)
        self.session = session
        self.reactor: Reactor = Reactor()
        undo.callback(self.reactor.close)
        self.reactor.on_turn = self._tidy
        capacity = object_store_memory or machine.store_capacity(self.session.shm_dir)
        self.store: Store = Store(
            session.shm_dir, session.disk_dir, DRIVER, capacity, self.reactor.call_later
        )
        self.spilling: Spilling = Spilling(self.store, self._recycle, self.lock)
        total = to_units(machine.resources(num_cpus, num_gpus, memory, resources, capacity))
        self.info: SessionFacts = facts_of_session(namespace, labels, runtime_env, total)
        self.interrupts: Interrupts = Interrupts(self.reactor, self.lock)
        undo.callback(self.interrupts.close)
        self.output: Output = Output(self.reactor, log_to_driver, log_prefix)
        undo.callback(self.output.close_descriptors)
        self.hub = Hub(
            self._ports(),
            self.info,
            self.entries,
            ResourcePool(total, growing=growing),
            Servers(session.dirs, list(preload or ()), light, warm),
            self._worker_settings(capacity, "GPU" in total),
            self.output.descriptors,
            memory_guard,
        )
        undo.callback(self.hub.processes.shutdown)
        self._inspection = of_driver(self)
        undo.callback(self._inspection.close)
        self._collected = 0  # messages since the last flush
        self.closed: bool = False
        self.hub.planner.prepare_environment()
        self.reactor.start_courier()
        _engines.add(self)  # last, as is the next: what failed to start is nobody's to end
        atexit.register(self._end_with_program)

    def _ports(self) -> Ports:
        return Ports(
            self.lock,
            self.reactor,
            self.store,
            self.spilling,
            self.complete,
            self.on_complete,
            self.next_id,
            self.output.log,
            self.output.recent.since,
        )

    def _recycle(self, segment: str) -> None:
        self.hub.segments.recycle(segment)

    def _worker_settings(self, capacity: int, has_gpus: bool) -> dict[str, Any]:
        return {
            "home": self.session.home,
            "session_dir": self.session.dir,
            "session_name": self.session.name,
            "shm_dir": self.session.shm_dir,
            "disk_dir": self.session.disk_dir,
            "capacity": capacity,
            "namespace": self.info.namespace,
            "job_id": self.info.job_id,
            "node_id": self.info.node_id,
            "has_gpus": has_gpus,
        }

    @property
    def session_name(self) -> str:  # type: ignore[override]  # see tests/local/test_engine.py
        return self.session.name

    def warm_up(self, modules: Sequence[str] | None) -> None:
        self.hub.processes.warm_up(modules)

    # -- objects -------------------------------------------------------------------------------

    def put(self, value: object) -> ObjectRef[Any]:
        self.interrupts.look_briefly()
        return self._put(serialization.dumps(value, "the put value"))

    def _put(self, serialized: Serialized) -> ObjectRef[Any]:
        kind, data = self._keep(serialized)
        entry = ObjectEntry(self.next_id())
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
        """Keep small values in the message, and large ones in the store."""
        if serialized.size <= INLINE_LIMIT_BYTES:
            return INLINE, serialized.packed()
        self.collect()
        self.spilling.make_room(serialized.size)
        return STORED, self.store.write(serialized, self.spilling.free_memory)

    def _store_entry(self, entry: ObjectEntry, kind: int, data: Any) -> None:
        if kind == STORED:
            self.spilling.added(entry, data)

    def _map(self, entry: ObjectEntry, borrow: bool) -> Any:
        mapping = super()._map(entry, borrow)
        with self.lock:
            self.spilling.used(entry)
        return mapping

    def _own(self, entry: ObjectEntry) -> None:
        """Hold a new entry by the reference that is about to be made."""
        self.entries[entry.id] = entry
        entry.held = True
        entry.count = 1

    def _want(self, entries: Iterable[ObjectEntry]) -> None:
        """Do nothing: all values arrive here by themselves."""

    def _hold(self, entry: ObjectEntry) -> None:
        entry.count += 1

    def _release(self, entry: ObjectEntry) -> None:
        self.hub.counts.drop_entry(entry)

    def _described(self, ref: ObjectRef[object]) -> str:
        return described(self, ref)

    def _refetch(self, entry: ObjectEntry) -> None:
        with self.lock:
            self.hub.requests.locate(entry.id)

    def pin(self, ref: ObjectRef[object]) -> None:
        with self.lock:
            self.entry_of(ref).count += 1

    def _tidy(self) -> None:
        if self.dropped:
            self.collect()
        if self.hub.functions.gone:
            with self.lock:
                self.hub.functions.forget_gone()

    # -- tasks ---------------------------------------------------------------------------------

    def submit(
        self,
        function: FunctionSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Any:
        self.interrupts.look_briefly()
        exported = function.exported
        if exported is None or exported[0] is not self:
            exported = self._export(function, function.function, function.name)
        hub = self.hub
        plan = hub.planner.task_plan(options)
        packed = pack(args, kwargs, self._put)
        task = self._task(exported[1], packed, plan)
        returned = self._returned(task)
        with self.lock:
            hub.tasks.submit(task)
        self._write()
        return returned

    def _task(
        self, function: ExportedFunction | None, packed: PackedArguments, plan: WorkPlan
    ) -> HubTask:
        dependencies = (
            [(slot, self.entry_of(ref)) for slot, ref in packed.dependencies]
            if packed.dependencies
            else ()
        )
        nested = [self.entry_of(ref).id for ref in packed.nested] if packed.nested else ()
        args = (packed.kind, packed.data)
        return HubTask(self.next_id(), function, args, dependencies, nested, plan, None)

    def _returned(self, task: HubTask) -> Any:
        """Return what the caller gets: references to the values that the task will have."""
        if task.plan.simple:
            return self._value_of(task, task.id)
        refs = [self._value_of(task, id) for id in task.return_ids]
        if task.plan.streaming:
            refs[0]._entry.stream = ItemStream()
            return ObjectRefGenerator(refs[0])
        return refs if task.plan.num_returns else None

    def _value_of(self, task: HubTask, id: int) -> ObjectRef[Any]:
        entry = ObjectEntry(id)
        entry.task = task
        self._own(entry)
        return self.new_ref(entry)

    def _export(self, spec: Any, function: object, name: str) -> Any:
        serialized = dump_function(function, name)
        kind, data = self._keep(serialized)
        key = self.next_id()
        record = ExportedFunction(
            key, kind, data, name, modules_used(function, serialized.payload)
        )
        with self.lock:
            nested = [self.entry_of(ref).id for ref in serialized.refs]
            self.hub.functions.keep(record, nested)
        spec.exported = (self, record)
        return spec.exported

    def _write(self) -> None:
        """Write what a submission has collected: at once if a worker waits for it, otherwise
        together with what follows, at the latest at the courier's next tick."""
        outbox = self.hub.outbox
        if outbox.urgent:
            outbox.urgent = False
            self._collected = 0
            self.reactor.flush()
        elif self.reactor.dirty:
            self._collected += 1
            if self._collected >= _MOST_TOGETHER:
                self._collected = 0
                self.reactor.help()
            else:
                self.reactor.touch()
        if self.interrupts.pending:
            self.interrupts.deliver()

    def _tell_all(self) -> None:
        """Wake whoever waits in the reactor for objects that this thread has completed."""
        self.reactor.flush()
        self.reactor.interrupt()
        if self.interrupts.pending:
            self.interrupts.deliver()

    def cancel(self, ref: ObjectRef[object], force: bool, recursive: bool) -> None:
        self.ask("cancel", self.entry_of(ref).id, force, recursive)

    # -- actors --------------------------------------------------------------------------------

    def create_actor(
        self,
        cls: ClassSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: ActorOptions,
    ) -> tuple[ObjectRef[Any], ActorMeta]:
        self.interrupts.look_briefly()
        exported = cls.exported
        if exported is None or exported[0] is not self:
            exported = self._export(cls, cls.cls, cls.meta.class_name)
        plan = self.hub.planner.actor_plan(options, cls.meta)
        packed = pack(args, kwargs, self._put)  # its references live until the hub holds them
        task = self._task(exported[1], packed, plan)
        meta = serialization.dumps(cls.meta).packed()
        ref = self._value_of(task, task.id)
        with self.lock:
            names = self.hub.actor_names
            existing = names.claim(options)
            if existing is not None:
                return self._handle(existing)
            self.hub.lifecycle.create(names.new_actor(task, options, cls.meta, meta))
        self._write()
        return ref, cls.meta

    def _handle(self, actor: HubActor) -> tuple[ObjectRef[Any], ActorMeta]:
        return self.adopt(actor.id), serialization.loads(actor.meta)

    def call_actor(
        self,
        actor: ObjectRef[object],
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: CallOptions,
    ) -> Any:
        self.interrupts.look_briefly()
        hub = self.hub
        plan = hub.planner.call_plan(self.id_of_actor(actor), options)
        packed = pack(args, kwargs, self._put)  # its references live until the hub holds them
        task = self._task(None, packed, plan)
        task.method = method
        with self.lock:
            hub.lifecycle.check_pending_calls(actor._id)
            returned = self._returned(task)
            hub.lifecycle.call(actor._id, task)
        self._write()
        return returned

    def exit_actor(self) -> None:
        raise TypeError("exit_actor() is for the methods of an actor; this is the driver")

    # -- surroundings --------------------------------------------------------------------------

    def ask(self, method: str, *args: object) -> Any:
        self.interrupts.look()
        self.collect()
        self.reactor.help()  # what has happened by now is part of the answer
        with self.lock:
            answer = self.hub.requests.answers[method](*args)
        self._tell_all()
        return answer

    def record_span(
        self, name: str, start: float, micros: int, extra: Mapping[str, object]
    ) -> None:
        with self.lock:
            self.hub.state.spans.append((name, start, micros, dict(extra), os.getpid()))

    def given(self, id: int) -> ObjectRef[Any]:
        return self.adopt(id)

    def new_object(self) -> ObjectRef[Any]:
        entry = ObjectEntry(self.next_id())
        self._own(entry)
        return self.new_ref(entry)

    def context(self) -> Context:
        return Context(
            job_id=self.info.job_id,
            node_id=self.info.node_id,
            worker_id=self.info.driver_id,
            namespace=self.info.namespace,
            runtime_env=dict(self.info.runtime_env),
            session_name=self.session.name,
            temp_dir=self.session.dir,
        )

    # -- waiting and life ----------------------------------------------------------------------

    def state(self, kind: str) -> list[dict[str, Any]]:
        return self.wait_facts() if kind == "waits" else super().state(kind)

    def shutdown(self) -> None:
        self.interrupts.look()
        with self.interrupts.held():
            self._shut_down()

    def _end_with_program(self) -> None:
        end_with_program(self)

    def _shut_down(self) -> None:
        if self.closed:
            return
        self.closed = True
        atexit.unregister(self._end_with_program)
        with self.lock:
            self._note_unread()
            self._fail_waiters()
        self._inspection.close()
        self.reactor.close()
        with self.lock:
            self.hub.close()
            self.store.close()
            self.output.close()
            self.session.remove()
        _engines.discard(self)  # its descriptors have other owners by the time of a fork
        self.hub.unread.close()
        self.interrupts.close()

    def detach_in_child(self) -> None:
        """Detach in a forked child of the driver: the engine is the parent's, its sockets too."""
        self.closed = True
        self.interrupts.detach_in_child()
        atexit.unregister(self._end_with_program)
        if installed_engine() is self:
            install_engine(None)
        self.hub.processes.detach_in_child()
        self._inspection.detach_in_child()
        self.output.close_descriptors()
        self.session.detach_in_child()
        self.reactor.detach_in_child()

    def _note_unread(self) -> None:
        """Note errors behind references that the program still has, and never looked at."""
        self.collect()
        for entry in self.entries.values():
            if entry.kind == FAILED and not entry.read:
                self.hub.unread.add(entry.data)

    def _fail_waiters(self) -> None:
        """Fail what threads still wait for, which would wait for ever."""
        awaited = {entry for needs in self._blocked for entry in needs.wanted}
        anonymous = _shut_down("")  # one for all that nobody waits for: there may be very many
        for entry in list(self.entries.values()):
            if entry.kind is None:
                known = entry in awaited or entry.waiters
                error = _shut_down(f"{entry.id:056x}") if known else anonymous
                self.complete(entry, FAILED, error)


def _shut_down(id: str) -> Any:
    """Return, packed, why there will be no value."""
    error = exceptions.ObjectLostError(id)
    error.reason = "the session was shut down"
    return serialization.dumps(error).packed()


_engines: weakref.WeakSet[LocalEngine] = weakref.WeakSet()


def _after_fork() -> None:
    """Let go of the parent's engines: once, as their descriptors are this child's from now on."""
    engines = list(_engines)
    _engines.clear()
    for engine in engines:
        engine.detach_in_child()


os.register_at_fork(after_in_child=_after_fork)
