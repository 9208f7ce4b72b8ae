"""`@remote`, and what it makes of a function."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import AsyncIterator, Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar, overload
from weakref import WeakValueDictionary

import skate.engine as _engine
from skate._core import options as option_table
from skate._core.errors import without_own_frames
from skate._core.signature import Arity, arity_of, showing_keywords
from skate._facade.actor import Actor, ActorClass
from skate._facade.actor_handle import decorated, looking_like
from skate._facade.calls import Out_co, P, R_co, RemoteCallable
from skate._facade.methods import INVOCATION_DECORATOR
from skate.engine import current_engine
from skate.engine.specs import FunctionSpec, TaskOptions

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate._core.refs import DynamicObjectRefGenerator, ObjectRef, ObjectRefGenerator
    from skate._facade.calls import (
        Class,
        ClassDecorator,
        Decorator,
        DecoratorOf,
        DynamicDecorator,
        Function,
        FunctionDecorator,
        RemoteCall,
        Unannotated,
    )
    from skate._facade.option_keywords import (
        ActorKeywords,
        FunctionKeywords,
        MadeKeywords,
        TaskKeywords,
    )
    from skate.dag import FunctionNode

MYPY: Final = False  # mypy takes it for True: where it and pyright need different overloads

A = TypeVar("A", bound=Actor)
C = TypeVar("C")
R = TypeVar("R")

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
)

# A remote function that comes back to this process inside a value is the one that left it, so
# that its code is sent to each worker once.
_specs: WeakValueDictionary[str, FunctionSpec] = WeakValueDictionary()


class RemoteFunction(RemoteCallable[P, R_co, Out_co]):
    """A function whose `.remote(...)` runs it elsewhere and returns a reference at once.

    `RemoteFunction[[int, str], float]` is one of an int and a str, with calls that are
    `ObjectRef[float]`.
    """

    def __init__(self, function: Callable[P, R_co], given: option_table.Given) -> None:
        self._token: str = os.urandom(12).hex()
        self._generator: bool = _is_generator(function)
        self._given: option_table.Given = given
        self._options: TaskOptions = option_table.task_options(given, generator=self._generator)
        self._arity: Arity = arity_of(function)
        self._attach(FunctionSpec(function, _name_of(function)))

    def _attach(self, spec: FunctionSpec) -> None:
        self._spec: FunctionSpec = _specs.setdefault(self._token, spec)
        self._function: Callable[P, R_co] = self._spec.function
        self.__wrapped__: Callable[P, R_co] = self._function
        self.__doc__ = self._function.__doc__
        self.__name__: str = self._spec.name
        self.__module__ = getattr(self._function, "__module__", "")
        self.remote: RemoteCall[Callable[P, Out_co]] = _starting(
            self._spec, self._arity, self._options
        )

    def _remote(
        self, args: Any = (), kwargs: dict[str, object] | None = None, **task_options: Any
    ) -> Any:
        """Call `options(...).remote(...)`; an older spelling."""
        function: Any = self.options(**task_options) if task_options else self
        return function.remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: object, **kwargs: object) -> FunctionNode:
        """Return a node of a graph that makes this call when it is executed; see `skate.dag`."""
        from skate.dag import FunctionNode

        return FunctionNode(self, args, kwargs)

    @overload
    def options(self, **options: Unpack[TaskKeywords]) -> RemoteFunction[P, R_co, Out_co]: ...
    @overload
    def options(
        self, *, num_returns: Literal["streaming", 1] | None, **options: Unpack[TaskKeywords]
    ) -> RemoteFunction[P, R_co, Out_co]: ...
    @overload
    def options(
        self: RemoteFunction[P, Iterator[R], Any],
        *,
        num_returns: Literal["dynamic"],
        **options: Unpack[TaskKeywords],
    ) -> RemoteFunction[P, Iterator[R], ObjectRef[DynamicObjectRefGenerator[R]]]: ...
    @overload
    def options(
        self, *, num_returns: Literal[0], **options: Unpack[TaskKeywords]
    ) -> RemoteFunction[P, R_co, None]: ...
    @overload
    def options(
        self,
        *,
        num_returns: Literal[2, 3, 4, 5, 6, 7, 8, 9, 10],
        **options: Unpack[TaskKeywords],
    ) -> RemoteFunction[P, R_co, list[ObjectRef[Any]]]: ...
    @overload
    def options(
        self, *, num_returns: int, **options: Unpack[TaskKeywords]
    ) -> RemoteFunction[P, R_co, Any]: ...
    @showing_keywords(option_table.names_of(option_table.TASK, fixed=False))
    def options(self, **options: object) -> Any:
        """Return the same function with some options changed.

        Args:
            **options: Those of a task, with the meaning that `remote` gives them: `num_returns`;
                `num_cpus`, `num_gpus`, `memory`, `resources`, `accelerator_type`; `max_retries`,
                `retry_exceptions`; `name`, `runtime_env`, `enable_task_events`;
                `scheduling_strategy`, `placement_group`, `placement_group_bundle_index`,
                `placement_group_capture_child_tasks`, `label_selector`, `fallback_strategy`. Not
                `max_calls`, which belongs to the function.

        Raises:
            ValueError: If there is no such option, or it does not take that value, or it is
                `max_calls`.
        """
        if "max_calls" in options:
            raise ValueError(
                "'max_calls' is not supported in .options(): it belongs to the function, so give "
                "it to @remote"
            )
        given = {**self._given, **option_table.check_options(option_table.TASK, options)}
        clone: RemoteFunction[P, R_co, Any] = object.__new__(RemoteFunction)
        clone.__dict__.update(self.__dict__, _given=given)
        clone._options = option_table.task_options(given, generator=self._generator)
        clone.remote = _starting(self._spec, self._arity, clone._options)
        return clone

    if not TYPE_CHECKING:  # for checkers a remote function cannot be called, as in fact it cannot

        def __call__(self, *args, **kwargs):
            name = self._spec.name
            raise TypeError(
                f"Remote functions cannot be called directly: use {name}.remote(...), "
                f"or {name}._function(...) to run it here"
            )

    def __repr__(self) -> str:
        return f"RemoteFunction({self._spec.name})"

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_token", "_generator", "_given", "_options", "_arity")
        state = {key: self.__dict__[key] for key in kept}
        return {**state, "function": self._spec.function, "name": self._spec.name}

    def __setstate__(self, state: dict[str, Any]) -> None:
        spec = FunctionSpec(state.pop("function"), state.pop("name"))
        self.__dict__.update(state)
        self._attach(spec)


def _starting(spec: FunctionSpec, arity: Arity, options: TaskOptions) -> RemoteCall[Any]:
    """Return the function behind `f.remote`.

    A function rather than a method, as it shows the user's own signature and docstring; without
    the remote function in it, which would be a cycle.
    """
    low, high = arity.low, arity.high

    def remote(*args: object, **kwargs: object) -> Any:
        if kwargs or not low <= len(args) <= high:
            arity.check(spec.name, args, kwargs)
        engine = _engine._current or current_engine()
        try:
            if _engine.tracer is not None:
                return _engine.tracer.submit(engine, spec, args, kwargs, options)
            return engine.submit(spec, args, kwargs, options)
        except TypeError as error:  # what cannot be pickled
            raise without_own_frames(error)

    decorator = getattr(spec.function, INVOCATION_DECORATOR, None)
    return decorated(decorator, looking_like(spec.function, spec.function.__doc__, remote))


def _is_generator(function: object) -> bool:
    function = inspect.unwrap(_innermost(function))
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _name_of(function: object) -> str:
    return str(_innermost(function).__name__)


def _innermost(function: object) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


# The first that fits is the most special one: they overlap on purpose.
@overload
def remote(target: type[A], /) -> type[A]: ...


if not MYPY:

    @overload
    def remote(target: type[C], /) -> ActorClass[C, type[C]]: ...


@overload
def remote(target: functools.partial[R], /) -> RemoteFunction[..., R, ObjectRef[R]]: ...


if not MYPY:

    @overload
    def remote(target: Function[P, Unannotated], /) -> RemoteFunction[P, Any, ObjectRef[Any]]: ...


@overload
def remote(  # type: ignore[overload-overlap]
    target: Function[P, AsyncIterator[R]], /
) -> RemoteFunction[P, AsyncIterator[R], ObjectRefGenerator[R]]: ...
@overload
def remote(  # type: ignore[overload-overlap]
    target: Function[P, Iterator[R]], /
) -> RemoteFunction[P, Iterator[R], ObjectRefGenerator[R]]: ...
@overload
def remote(target: Function[P, R], /) -> RemoteFunction[P, R, ObjectRef[R]]: ...
@overload
def remote(target: Class[P, C], /) -> ActorClass[C, Callable[P, C]]: ...
@overload
def remote(**options: Unpack[MadeKeywords]) -> Decorator: ...
@overload
def remote(**options: Unpack[FunctionKeywords]) -> FunctionDecorator: ...
@overload
def remote(**options: Unpack[ActorKeywords]) -> ClassDecorator: ...
@overload
def remote(
    *, num_returns: Literal["streaming", 1] | None, **options: Unpack[FunctionKeywords]
) -> FunctionDecorator: ...
@overload
def remote(
    *, num_returns: Literal["dynamic"], **options: Unpack[FunctionKeywords]
) -> DynamicDecorator: ...
@overload
def remote(
    *, num_returns: Literal[0], **options: Unpack[FunctionKeywords]
) -> DecoratorOf[None]: ...
@overload
def remote(
    *, num_returns: Literal[2, 3, 4, 5, 6, 7, 8, 9, 10], **options: Unpack[FunctionKeywords]
) -> DecoratorOf[list[ObjectRef[Any]]]: ...
@overload
def remote(*, num_returns: int, **options: Unpack[FunctionKeywords]) -> DecoratorOf[Any]: ...
@showing_keywords(option_table.names_of(option_table.TASK, option_table.ACTOR))
def remote(*args: object, **options: object) -> Any:
    """Make a function or a class remote.

    As `@remote`, as `@remote(num_cpus=2, num_returns=2, ...)`, or as `remote(function)`.

    Args:
        *args: The function or class; without it, a decorator is returned.
        **options: What its tasks or actors need, and how they behave; see below.

    Options of functions and classes:
        num_cpus, num_gpus: How many of them a task or actor takes; fractions are fine.
        memory: Bytes that it takes of the memory that the machine has.
        resources: Names of other resources, and how much of each.
        accelerator_type: The kind of GPU.
        name: Of a task, for reports; of an actor, by which `get_actor` finds it.
        runtime_env: Environment variables, packages and files of its process.
        scheduling_strategy: "DEFAULT", "SPREAD" or one of `util.scheduling_strategies`.
        placement_group, placement_group_bundle_index, placement_group_capture_child_tasks:
            Where it runs among reserved resources; "default" is the group around it, if that
            captures what runs there, None is no group.
        label_selector, fallback_strategy: On which machines it may run.
        enable_task_events: Whether `util.state` lists it, and the timeline shows it; of a class,
            its calls that say nothing else.

    Options of functions:
        num_returns: How many values a call has, "streaming" or "dynamic"; each is a reference.
        max_retries: How often a task is run again when its process dies; -1 for ever.
        retry_exceptions: Whether its exceptions, or which of them, are a reason as well.
        max_calls: After how many tasks a process ends.

    Options of classes:
        max_restarts: How often an actor starts again; -1 for ever.
        max_task_retries: How often one of its calls does, once it has; -1 for ever.
        max_concurrency: How many calls it runs at a time.
        concurrency_groups: The same for groups of methods, each by its name.
        max_pending_calls: How many calls of one caller may wait; -1 for no limit.
        namespace, lifetime, get_if_exists: In which namespace its name counts, whether it outlives
            its last handle ("detached"), and whether the name may be taken.
        object_store_memory: Bytes of the object store that it takes, for programs of Ray: there
            is one store for all, so that it has no effect.
        allow_out_of_order_execution: Whether calls may overtake others; only actors that run
            several at a time do, and these always.
        enable_tensor_transport: Whether Ray may carry tensors past the object store; here they go
            through shared memory in any case.

    Returns:
        A `RemoteFunction` or an `ActorClass`, or a decorator that makes one.

    Raises:
        TypeError: If it is neither a function nor a class, or remote already.
        ValueError: If there is no such option, or it does not take that value.

    Example:
        >>> @skate.remote
        ... def square(x: int) -> int:
        ...     return x * x
        >>> skate.get(square.remote(3))
        9
    """
    if len(args) == 1 and not options:
        return _make(args[0], {})
    if args:
        raise TypeError(
            f"remote() takes options by keyword only, as in @remote(num_cpus=1); got {args!r}"
        )
    if not options:
        raise TypeError("use @remote without parentheses, or with options: @remote(num_cpus=1)")
    option_table.check_names(options)
    return functools.partial(_make, given=options)


def _make(
    target: object, given: dict[str, object]
) -> RemoteFunction[..., Any, Any] | ActorClass[Any, Any]:
    if isinstance(target, (RemoteFunction, ActorClass)):
        raise TypeError(f"{target!r} is remote already; change its options with .options(...)")
    if isinstance(target, type):
        return ActorClass(target, option_table.check_options(option_table.ACTOR, given))
    if not isinstance(target, _FUNCTIONS):
        raise TypeError(f"remote() takes a function or a class; got {target!r}")
    if inspect.iscoroutinefunction(target):
        raise ValueError(
            "'async def' should not be used for remote tasks, as only actors have an event loop: "
            f"make {_name_of(target)} a method of a remote class, or call asyncio.run in a plain "
            "function"
        )
    return RemoteFunction(target, option_table.check_options(option_table.TASK, given))
