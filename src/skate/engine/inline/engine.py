"""The inline engine: same process, same thread, real references.

    f.remote(x) ── arguments pickled ── f runs now ── result pickled ──► reference, done
    get(ref)    ── unpickled, or the error raised

A call runs while it is submitted, in the order of submission, so programs are deterministic and
breakpoints, mocks and profilers work. Exceptions, which are the exception: streaming generators
run item by item as they are consumed; async actors run on a thread each, because their calls
overlap; and a call whose arguments such an actor still owes runs on a thread when they are there.
"""

from __future__ import annotations

import os
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar
from weakref import WeakSet
from weakref import ref as WeakRef  # noqa: N812

from skate._core.ids import NodeID, TaskID, WorkerID, actor_id_of
from skate._core.labels import Selector, lacking, with_labels
from skate._core.measurements import port_of_session
from skate._core.refs import ObjectRef
from skate._core.runtime_environments import run_setup_hook
from skate.engine.affinity import elsewhere
from skate.engine.base import Engine
from skate.engine.inline.actors import Construction, InlineActor, MethodCall, as_refused_actor
from skate.engine.inline.calls import ActorExit, Arguments, Call, Results, current, span_event
from skate.engine.inline.lanes import Lane
from skate.engine.inline.names import Names
from skate.engine.inline.objects import Objects
from skate.engine.inline.placement import Placement
from skate.engine.inline.resources import Holding, InlineResources, request
from skate.engine.inline.surroundings import merged
from skate.engine.spans import Span
from skate.engine.specs import (
    ActorMeta,
    ActorOptions,
    CallOptions,
    ClassSpec,
    Context,
    FunctionSpec,
    TaskOptions,
    method_name,
)
from skate.exceptions import (
    ActorDiedError,
    ActorHandleNotFoundError,
    GetTimeoutError,
    SkateError,
)

C = TypeVar("C", bound=Call)

_EVENTS = 100_000  # kept for timeline()


class InlineEngine(Engine):
    """Runs everything in the caller's thread."""

    name = "inline"
    has_workers = False

    def __init__(
        self,
        num_cpus: float | None = None,
        num_gpus: float | None = None,
        memory: int | None = None,
        resources: Mapping[str, float] | None = None,
        labels: Mapping[str, str] | None = None,
        object_store_memory: int | None = None,
        namespace: str | None = None,
        runtime_env: Mapping[str, object] | None = None,
    ) -> None:
        if hook := (runtime_env or {}).get("worker_process_setup_hook"):
            run_setup_hook(hook)  # this process is the worker
        self.session_name: str = f"inline-{os.getpid()}-{os.urandom(4).hex()}"
        self._labels = dict(labels or {})
        self._objects = Objects(self)
        self._resources = InlineResources(
            num_cpus, num_gpus, memory, object_store_memory, resources
        )
        self._placement = Placement(self._objects, self._resources)
        self._names = Names()
        self._actors: WeakSet[InlineActor] = WeakSet()
        self._events: deque[dict[str, Any]] = deque(maxlen=_EVENTS)
        self._driver = Context(
            job_id="01000000",
            node_id=NodeID.from_random().hex(),
            worker_id=WorkerID.from_random().hex(),
            namespace=namespace or "default",
            gpu_ids=tuple(range(int(num_gpus or 0))),
            runtime_env=merged({}, runtime_env),
            session_name=self.session_name,
            temp_dir=tempfile.gettempdir(),
        )

    # -- objects -------------------------------------------------------------------------------

    def put(self, value: object) -> ObjectRef[Any]:
        return self._objects.put(value)

    def get(
        self, refs: Sequence[ObjectRef[object]], timeout: float | None, copy: bool = False
    ) -> list[Any]:
        return self._objects.get(refs, timeout, copy)

    def wait(
        self, refs: Sequence[ObjectRef[object]], num_returns: int, timeout: float | None
    ) -> tuple[list[ObjectRef[Any]], list[ObjectRef[Any]]]:
        return self._objects.wait(refs, num_returns, timeout)

    def add_done_callback(self, ref: ObjectRef[object], callback: Callable[[], None]) -> None:
        self._objects.when_done(ref, callback)

    def adopt(self, id: int) -> ObjectRef[object]:
        return self._objects.adopt(id)

    def pin(self, ref: ObjectRef[object]) -> None:
        self._objects.pin(ref)

    # -- tasks ---------------------------------------------------------------------------------

    def submit(
        self,
        function: FunctionSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: TaskOptions,
    ) -> Any:
        arguments = Arguments(self._objects, args, kwargs)
        results = Results(self._objects, options.num_returns)
        name = options.name or function.name
        try:
            holding, group = self._reserve(options, 1.0, f"task {name}")
        except SkateError as error:
            results.fail(error)
            return results.returned()
        around = self.context()
        context = self._context(
            holding,
            group,
            options.capture_child_tasks or around.capture_child_tasks,
            merged(around.runtime_env, options.runtime_env),
            task_name=name,
            function_name=_full_name(function.function),
        )
        call = self._call(Call, name, arguments, results, context)
        call.function = function.function
        call.holding = None if group is not None else holding
        call.retries, call.retry_exceptions = options.max_retries, options.retry_exceptions
        call.start(Lane(self._objects))
        return results.returned()

    def _call(
        self,
        kind: type[C],
        name: str,
        arguments: Arguments,
        results: Results,
        context: Context,
    ) -> C:
        return kind(
            name=name,
            arguments=arguments,
            results=results,
            context=context,
            variables=self._resources.variables(context.accelerator_ids),
            objects=self._objects,
            resources=self._resources,
            events=self._events,
        )

    def _reserve(
        self, options: TaskOptions | ActorOptions, default_cpus: float, what: str
    ) -> tuple[Holding, object]:
        """Return what it gets, and its placement group; raise what says that it can never run."""
        amounts = request(options, default_cpus)
        amounts.update(elsewhere(options.strategy, self._driver.node_id))
        amounts.update(lacking(options.label_selectors, options.strategy, self._all_labels()))
        group, index = options.placement_group, options.bundle_index
        around = self.context()
        if group is None and (around.capture_child_tasks or options.capture_child_tasks):
            group, index = around.placement_group, -1
        group = group or None
        if group is None:
            self._resources.check(amounts, what)
        else:
            self._placement.check(group, index, amounts, what)
        return Holding(amounts, self._resources.choose(amounts)), group

    def _context(
        self,
        holding: Holding,
        group: object,
        capture: bool,
        runtime_env: dict[str, object],
        **fields: Any,
    ) -> Context:
        driver = self._driver
        ids = self._resources.accelerator_ids(holding)
        return Context(
            job_id=driver.job_id,
            node_id=driver.node_id,
            worker_id=driver.worker_id,
            namespace=driver.namespace,
            session_name=driver.session_name,
            temp_dir=driver.temp_dir,
            task_id=TaskID.from_random().hex(),
            placement_group=group,
            capture_child_tasks=capture,
            resources=holding.amounts,
            gpu_ids=ids.get("GPU", ()),
            accelerator_ids=ids,
            runtime_env=runtime_env,
            **fields,
        )

    def cancel(self, ref: ObjectRef[object], force: bool, recursive: bool) -> None:
        entry = self._objects.entry(ref)
        if force and entry.by_actor:
            raise ValueError("force=True would end the whole actor: use kill() for that")
        if entry.cancel is not None:
            entry.cancel()
        elif entry.stream is not None and not entry.done:
            entry.stream.cancel()

    # -- streams -------------------------------------------------------------------------------

    def stream_next(
        self, generator: ObjectRef[object], index: int, timeout: float | None
    ) -> ObjectRef[Any] | None:
        there, ref = self._objects.stream(generator).take(index, timeout)
        if not there:
            raise GetTimeoutError(f"item {index} is not there after {timeout} s")
        return ref

    def stream_ready(self, generator: ObjectRef[object], index: int) -> bool:
        return self._objects.stream(generator).ready(index)

    def stream_finished(self, generator: ObjectRef[object], index: int) -> bool:
        return self._objects.stream(generator).finished(index)

    def stream_close(self, generator: ObjectRef[object], index: int) -> None:
        self._objects.stream(generator).close()

    def stream_abandoned(self, generator: ObjectRef[object], index: int) -> None:
        generator._entry.stream.abandon()

    def add_stream_callback(
        self, generator: ObjectRef[object], index: int, callback: Callable[[], None]
    ) -> None:
        self._objects.stream(generator).when_ready(index, callback)

    # -- actors --------------------------------------------------------------------------------

    def create_actor(
        self,
        cls: ClassSpec,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: ActorOptions,
    ) -> tuple[ObjectRef[Any], ActorMeta]:
        key = (options.namespace or self._driver.namespace, options.name)
        existing = self._names.find(key) if options.name else None
        if existing is not None and options.get_if_exists:
            return existing, existing._entry.actor.cls.meta
        self._names.check_free(key)
        arguments = Arguments(self._objects, args, kwargs)
        results = Results(self._objects, 1)
        ref = results.refs[0]
        try:
            holding, group = self._reserve(options, 0.0, f"actor {cls.meta.class_name}")
        except SkateError as error:
            return self._refused(ref, cls, options, arguments, as_refused_actor(error))
        actor = self._new_actor(ref, cls, options, arguments, holding, group)
        self._names.add(key, ref, options.detached)
        self._construct(ref, actor, results)
        return ref, cls.meta

    def _new_actor(
        self,
        ref: ObjectRef[object],
        cls: ClassSpec,
        options: ActorOptions,
        arguments: Arguments,
        holding: Holding,
        group: object,
    ) -> InlineActor:
        weak = WeakRef(ref)

        def construct_again(actor: InlineActor) -> None:
            live = weak()
            if live is not None:
                self._construct(live, actor, Results(self._objects, 1))

        actor = InlineActor(
            cls,
            options,
            arguments,
            self._objects,
            self._resources,
            holding,
            group,
            merged(self.context().runtime_env, options.runtime_env),
            actor_id_of(ref).hex(),
            construct_again,
        )
        ref._entry.actor = actor
        self._actors.add(actor)
        if group is not None:
            self._placement.enter(group, actor)
        return actor

    def _refused(
        self,
        ref: ObjectRef[object],
        cls: ClassSpec,
        options: ActorOptions,
        arguments: Arguments,
        error: SkateError,
    ) -> tuple[ObjectRef[object], ActorMeta]:
        """Return an actor that can never run: its reference and all its calls hold the error."""
        actor = self._new_actor(ref, cls, options, arguments, Holding({}), None)
        actor.end(error)
        self._objects.fail(ref, error)
        return ref, cls.meta

    def _construct(self, ref: ObjectRef[object], actor: InlineActor, results: Results) -> None:
        name = f"{actor.cls.meta.class_name}.__init__"
        context = self._actor_context(ref, actor, name, _method_name(actor.cls, "__init__"))
        call = self._call(Construction, name, actor.arguments, results, context)
        call.actor = actor
        actor.start(call, None)

    def _actor_context(
        self, ref: ObjectRef[object], actor: InlineActor, name: str, function_name: str
    ) -> Context:
        return self._context(
            actor.holding,
            actor.group,
            actor.options.capture_child_tasks,
            actor.runtime_env,
            task_name=name,
            function_name=function_name,
            actor_id=actor.actor_id,
            actor_name=actor.options.name,
            actor=(ref, actor.cls.meta),
            actor_restarted=actor.restarts > 0,
        )

    def call_actor(
        self,
        actor: ObjectRef[object],
        method: str,
        args: tuple[object, ...],
        kwargs: dict[str, Any],
        options: CallOptions,
    ) -> Any:
        target = self._actor(actor)
        arguments = Arguments(self._objects, args, kwargs)
        results = Results(self._objects, options.num_returns, by_actor=True)
        if target.death is not None:
            actor._entry.told()  # by the call
            results.fail(target.death)
            return results.returned()
        name = options.name or f"{target.cls.meta.class_name}.{method}"
        full_name = _method_name(target.cls, method)
        context = self._actor_context(actor, target, name, full_name)
        call = self._call(MethodCall, name, arguments, results, context)
        call.actor, call.method = target, method
        retries = options.max_task_retries
        call.retries = target.options.max_task_retries if retries is None else retries
        call.retry_exceptions = options.retry_exceptions
        target.start(call, options.concurrency_group)
        return results.returned()

    def _actor(self, ref: ObjectRef[object]) -> InlineActor:
        if ref._home is not self._objects:
            raise ActorHandleNotFoundError()
        actor = self._objects.entry(ref).actor
        assert actor is not None
        return actor

    def kill(self, actor: ObjectRef[object], no_restart: bool) -> None:
        target = self._actor(actor)
        if target.death is not None:
            return
        while target.groups:
            self._placement.remove(target.groups.pop())
        if no_restart or not target.may_restart():
            why = "It was killed with kill()."
            target.end(ActorDiedError(why, target.actor_id, "INTENDED_SYSTEM_EXIT"))
            return
        target.restarts += 1
        target.construct_again(target)

    def get_actor(self, name: str, namespace: str | None) -> tuple[ObjectRef[Any], ActorMeta]:
        key = (namespace or self.context().namespace, name)
        ref = self._names.get(key)
        return ref, self._actor(ref).cls.meta

    def list_named_actors(self, all_namespaces: bool) -> list[tuple[str, str]]:
        here = self.context().namespace
        return [key for key in self._names.all() if all_namespaces or key[0] == here]

    def exit_actor(self) -> None:
        context = self.context()
        assert context.actor is not None
        self._actor(context.actor[0]).leaving.add(context.task_id)
        raise ActorExit(0)

    # -- resources and surroundings ------------------------------------------------------------

    def cluster_resources(self) -> dict[str, float]:
        return {name: amount for name, amount in self._resources.total.items() if amount}

    def add_resources(self, amounts: Mapping[str, float]) -> None:
        self._resources.grow(amounts)

    def set_resource(self, name: str, capacity: float) -> None:
        self._resources.total[name] = capacity

    def available_resources(self) -> dict[str, float]:
        return self._resources.available()

    def nodes(self) -> list[dict[str, Any]]:
        return [
            {
                "NodeID": self._driver.node_id,
                "Alive": not self._objects.closed,
                "alive": not self._objects.closed,
                "NodeManagerAddress": "127.0.0.1",
                "NodeManagerHostname": os.uname().nodename,
                "NodeName": "127.0.0.1",
                "MetricsExportPort": port_of_session(),
                "Resources": self.cluster_resources(),
                "Labels": self._all_labels(),
            }
        ]

    def context(self) -> Context:
        return current.get() or self._driver

    def state(self, kind: str) -> list[dict[str, Any]]:
        """List actors only: calls run while they are made, so that nothing else is there."""
        if kind != "actors":
            return []
        return [actor.row(self._driver) for actor in list(self._actors)]

    def timeline(self) -> list[dict[str, object]]:
        return list(self._events)

    def profile(self, name: str, extra: Mapping[str, object]) -> Span:
        return Span(name, extra, lambda *span: self._events.append(span_event(*span)))

    # -- placement groups ----------------------------------------------------------------------

    def _all_labels(self) -> dict[str, str]:
        return {"ray.io/node-id": self._driver.node_id, **self._labels}

    def create_placement_group(
        self,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        name: str,
        detached: bool,
        selectors: Sequence[Selector],
    ) -> ObjectRef[Any]:
        needed = with_labels(bundles, selectors, self._all_labels())
        group = self._placement.create(bundles, strategy, name, needed)
        maker = self.context().actor
        if maker is not None and not detached:
            self._actor(maker[0]).groups.append(group)
        return group

    def remove_placement_group(self, group: ObjectRef[object]) -> None:
        self._placement.remove(group)

    def get_placement_group(self, name: str) -> tuple[ObjectRef[Any], list[dict[str, float]]]:
        return self._placement.find(name)

    def placement_group_table(self) -> dict[str, dict[str, object]]:
        return self._placement.table(self._driver.node_id)

    # -- life ----------------------------------------------------------------------------------

    def shutdown(self) -> None:
        if self._objects.closed:
            return
        self._objects.close()
        for actor in list(self._actors):
            actor.end(ActorDiedError("skate was shut down.", actor.actor_id))
            actor.join()
        self._names.clear()
        self._placement.clear()


def _full_name(function: Any) -> str:
    inner = getattr(function, "func", function)  # of a functools.partial
    return f"{inner.__module__}.{inner.__name__}"


def _method_name(cls: ClassSpec, method: str) -> str:
    return method_name(cls.cls, cls.meta.class_name, method, is_async=cls.meta.is_async)
