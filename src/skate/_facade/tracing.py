"""Spans of OpenTelemetry around remote calls: one where a call is made, one where it runs.

    caller                                                worker
    "module.f ray.remote" ──── trace context, as one ───► "module.f ray.remote_worker"
    (PRODUCER)                 more keyword of the call   (CONSUMER, its child)

`init(_tracing_startup_hook=...)` begins it, here and in every worker; without it, nothing here is
imported. Engines know nothing of it: what they are given to run is the user's function or class,
wrapped. Names and attributes of the spans are Ray's, which dashboards look for.
"""

from __future__ import annotations

import functools
import inspect
import os
from abc import ABCMeta
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakKeyDictionary

import skate.engine as _engine
from skate._core.argument_checks import wrong_type
from skate._core.ids import actor_id_of
from skate._core.optional_imports import try_import
from skate.engine.specs import ActorOptions, CallOptions, ClassSpec, FunctionSpec, TaskOptions

if TYPE_CHECKING:
    from skate._core.refs import ObjectRef
    from skate.engine.base import Engine, Returned
    from skate.engine.specs import ActorMeta

_CONTEXT = "_ray_trace_ctx"  # the keyword that carries the context of a trace
_OF_CLASSES = ("__class_getitem__", "__init_subclass__", "__new__", "__subclasshook__")

Arguments = tuple[object, ...]
Keywords = dict[str, object]


class StartTracing(NamedTuple):
    """Set tracing up in this process; called in the driver and in each worker."""

    hook: str | Callable[[], object]

    def __call__(self) -> None:
        self.function()
        _engine.tracer = SpanTracer()

    @property
    def function(self) -> Callable[[], object]:
        """The user's function, imported if it was given by its path."""
        from pkgutil import resolve_name

        return resolve_name(self.hook) if isinstance(self.hook, str) else self.hook


def checked_hook(hook: object) -> StartTracing:
    """Return what begins tracing with the user's function.

    Raises:
        TypeError: If it is neither a function nor a string.
        ValueError: If it is a string of another form.
        ImportError: If OpenTelemetry is not installed, or there is no such module.
        AttributeError: If the module has no such function.
    """
    if isinstance(hook, str):
        module, _, name = hook.partition(":")
        if not module or not name:
            raise ValueError(
                f'_tracing_startup_hook takes "module:function", as "traces:setup"; got {hook!r}'
            )
    elif not callable(hook):
        raise wrong_type(
            "_tracing_startup_hook", hook, 'a function, or a string "module:function"'
        )
    try_import("opentelemetry.sdk", "tracing")
    start = StartTracing(hook)
    _ = start.function  # a path that leads nowhere is told before anything starts
    return start


class SpanTracer:
    """Make calls inside spans, and let what they run continue the trace."""

    def __init__(self) -> None:
        self._functions: WeakKeyDictionary[FunctionSpec, FunctionSpec] = WeakKeyDictionary()
        self._classes: WeakKeyDictionary[ClassSpec, ClassSpec] = WeakKeyDictionary()

    def submit(
        self,
        engine: Engine,
        spec: FunctionSpec,
        args: Arguments,
        kwargs: Keywords,
        options: TaskOptions,
    ) -> Returned:
        """Start a task, as `Engine.submit` does."""
        traced = self._functions.get(spec)
        name = f"{_module_of(spec.function)}.{spec.name}"
        if traced is None:
            of_task = functools.partial(_attributes_of_function, name)
            function = _continuing(spec.function, f"{name} ray.remote_worker", of_task)
            traced = self._functions[spec] = FunctionSpec(function, spec.name)
        with _span(f"{name} ray.remote", "PRODUCER", _attributes_of_function(name)):
            return engine.submit(traced, args, {**kwargs, **_context()}, options)

    def create_actor(
        self,
        engine: Engine,
        spec: ClassSpec,
        args: Arguments,
        kwargs: Keywords,
        options: ActorOptions,
    ) -> tuple[ObjectRef[None], ActorMeta]:
        """Start an actor, as `Engine.create_actor` does."""
        traced = self._classes.get(spec)
        if traced is None:
            traced = self._classes[spec] = _traced_spec(spec)
        name = spec.meta.qualified_name or spec.meta.class_name
        attributes = _attributes_of_method(name, "__init__")
        with _span(f"{name}.__init__ ray.remote", "PRODUCER", attributes) as span:
            made = engine.create_actor(traced, args, {**kwargs, **_context()}, options)
            span.set_attribute("ray.actor_id", actor_id_of(made[0]).hex())
            return made

    def call_actor(
        self,
        engine: Engine,
        class_name: str,
        ref: ObjectRef[None],
        name: str,
        args: Arguments,
        kwargs: Keywords,
        options: CallOptions,
    ) -> Returned:
        """Call a method, as `Engine.call_actor` does; `class_name` is the qualified one."""
        attributes = _attributes_of_method(class_name, name)
        attributes["ray.actor_id"] = actor_id_of(ref).hex()
        with _span(f"{class_name}.{name} ray.remote", "PRODUCER", attributes):
            return engine.call_actor(ref, name, args, {**kwargs, **_context()}, options)


# -- where a call runs ----------------------------------------------------------------------------


def _traced_spec(spec: ClassSpec) -> ClassSpec:
    """Return the class that continues traces, whose handles know which of its methods do."""
    methods = {
        name: method._replace(is_traced=name not in _OF_CLASSES)
        for name, method in spec.meta.methods.items()
    }
    return ClassSpec(_continuing_class(spec), spec.meta._replace(methods=methods))


def _continuing_class(spec: ClassSpec) -> type[Any]:
    """Return a subclass of the user's class whose methods take and continue a trace."""
    cls: Any = spec.cls
    traced = {name: _continuing_method(cls, name) for name in ("__init__", *spec.meta.methods)}
    for name in _OF_CLASSES:
        traced.pop(name, None)
    if cls.__new__ is not object.__new__:
        traced["__new__"] = _new_without_context(cls)
    if "__eq__" in traced:  # without it, Python would take the instances' hash away
        traced.setdefault("__hash__", cls.__hash__)
    own = {"__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__doc__}
    made: type[Any] = _quiet_metaclass(cls)(cls.__name__, (_Quiet, cls), {**own, **traced})
    return made


def _continuing_method(cls: Any, name: str) -> Any:
    raw = inspect.getattr_static(cls, name)
    span_name = f"{cls.__name__}.{name} ray.remote_worker"
    attributes = functools.partial(_attributes_of_method, cls.__name__, name)
    if isinstance(raw, (staticmethod, classmethod)):
        return type(raw)(_continuing(raw.__func__, span_name, attributes))
    return _continuing(getattr(cls, name), span_name, attributes)


class _Quiet:
    """The first base of traced classes: nobody defined those, so nobody is told of them."""

    __slots__ = ()

    def __init_subclass__(cls) -> None: ...


def _quiet_metaclass(cls: Any) -> Any:
    """Return the metaclass of a class, without what it does when a class is defined."""
    kind = type(cls)
    if kind in (type, ABCMeta):
        return kind
    body = {
        "__new__": lambda kind, name, bases, body: type.__new__(kind, name, bases, body),
        "__init__": lambda made, name, bases, body: None,
        "__prepare__": staticmethod(lambda *args, **kwargs: {}),
    }
    return type(kind.__name__, (kind,), body)


def _new_without_context(base: Any) -> Callable[..., Any]:
    def new(cls: Any, *args: object, **kwargs: object) -> Any:
        kwargs.pop(_CONTEXT, None)
        return base.__new__(cls, *args, **kwargs)

    return new


def _continuing(
    function: Any, span_name: str, attributes: Callable[[], dict[str, str]]
) -> Callable[..., Any]:
    """Return the function with one more keyword, the context of the trace that it continues.

    Engines look at what a call returns, and, of constructors, whether they are `async def`: so
    does this.
    """
    traced: Any

    if inspect.iscoroutinefunction(function):

        async def traced(*args: Any, **kwargs: Any) -> Any:
            carrier = kwargs.pop(_CONTEXT, None)
            made = function(*args, **kwargs)
            if carrier is None:  # a method that calls another of its own
                return await made
            return await _TracedCall(carrier, span_name, attributes()).awaited(made)

    else:

        def traced(*args: Any, **kwargs: Any) -> Any:
            carrier = kwargs.pop(_CONTEXT, None)
            if carrier is None:
                return function(*args, **kwargs)
            return _TracedCall(carrier, span_name, attributes()).made(function, args, kwargs)

    return functools.wraps(function)(traced)


class _TracedCall:
    """A call that runs here, with its span: the current one just while code of the call runs.

    Between the items of a generator others run in the same thread, as the driver does on the
    inline engine.
    """

    def __init__(self, carrier: Mapping[str, str], name: str, attributes: dict[str, str]) -> None:
        from opentelemetry import propagate, trace

        self._parent = propagate.extract(carrier)
        self._span = trace.get_tracer("skate").start_span(
            name, self._parent, trace.SpanKind.CONSUMER, attributes
        )

    @contextmanager
    def running(self, *, is_last: bool) -> Iterator[None]:
        """Let the span be the current one, and end it afterwards, if no more is to come."""
        from opentelemetry import context, trace

        token = context.attach(self._parent)
        try:
            with trace.use_span(self._span, end_on_exit=is_last):
                yield
        finally:
            context.detach(token)

    def made(self, function: Any, args: Arguments, kwargs: Keywords) -> Any:
        """Make the call, and continue with what it returns, if that is yet to run."""
        try:
            with self.running(is_last=False):
                value = function(*args, **kwargs)
        except BaseException:
            self._span.end()
            raise
        if inspect.isgenerator(value):
            return self.items(value)
        if inspect.isasyncgen(value):
            return self.async_items(value)
        if inspect.iscoroutine(value):
            return self.awaited(value)
        self._span.end()
        return value

    async def awaited(self, value: Any) -> Any:
        with self.running(is_last=True):
            return await value

    def items(self, generator: Any) -> Generator[Any, Any, Any]:
        step = functools.partial(next, generator)
        try:
            while True:
                with self.running(is_last=False):
                    try:
                        item = step()
                    except StopIteration as end:
                        return end.value
                try:
                    step = functools.partial(generator.send, (yield item))
                except GeneratorExit:
                    raise
                except BaseException as error:
                    step = functools.partial(generator.throw, error)
        finally:
            with self.running(is_last=True):
                generator.close()

    async def async_items(self, generator: Any) -> AsyncIterator[Any]:
        try:
            while True:
                with self.running(is_last=False):
                    try:
                        item = await anext(generator)
                    except StopAsyncIteration:
                        return
                yield item
        finally:
            with self.running(is_last=True):
                await generator.aclose()


# -- spans ----------------------------------------------------------------------------------------


def _span(name: str, kind: str, attributes: Mapping[str, str]) -> Any:
    from opentelemetry import trace

    tracer = trace.get_tracer("skate")
    return tracer.start_as_current_span(name, kind=trace.SpanKind[kind], attributes=attributes)


def _context() -> dict[str, dict[str, str]]:
    """Return the context of the span that is open here, as the keyword that carries it."""
    from opentelemetry import propagate

    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return {_CONTEXT: carrier}


def _attributes_of_function(name: str) -> dict[str, str]:
    return {"ray.remote": "function", "ray.function": name, **_of_process()}


def _attributes_of_method(class_name: str, name: str) -> dict[str, str]:
    return {
        "ray.remote": "actor",
        "ray.actor_class": class_name,
        "ray.actor_method": name,
        "ray.function": f"{class_name}.{name}",
        **_of_process(),
    }


def _of_process() -> dict[str, str]:
    context = _engine.current_engine().context()
    ids = {
        "ray.pid": str(os.getpid()),
        "ray.job_id": context.job_id,
        "ray.node_id": context.node_id,
        "ray.worker_id": context.worker_id,
        "ray.task_id": context.task_id,
        "ray.actor_id": context.actor_id,
    }
    return {name: id for name, id in ids.items() if id}


def _module_of(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(getattr(function, "__module__", ""))
