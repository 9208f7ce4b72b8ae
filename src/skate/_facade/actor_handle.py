"""Handles to actors, and the methods that are called by them."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Literal, overload

import skate.engine as _engine
from skate._core import options as option_table
from skate._core.ids import ActorID, actor_id_of
from skate._core.nearest import nearest_names
from skate._core.refs import ObjectRef
from skate._core.signature import ANYTHING, Arity, showing_keywords
from skate._facade.calls import ActorTyped, C_co, Out_co, P, R_co, RemoteCallable
from skate.engine import engine_of_actor
from skate.engine.specs import ActorMeta, CallOptions, MethodMeta

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate._facade.calls import RemoteCall
    from skate._facade.option_keywords import CallKeywords

# Understood by every actor, without being written in its class.
_BUILT_IN = {
    "__ray_ready__": MethodMeta("__ray_ready__", signature=Arity(())),
    "__ray_terminate__": MethodMeta("__ray_terminate__", signature=Arity(())),
    "__ray_call__": MethodMeta(
        "__ray_call__", signature=Arity((("fn", 0, False), *ANYTHING.parameters))
    ),
}


class ActorHandle(ActorTyped[C_co]):
    """Call the methods of an actor: they are attributes with `.remote(...)`.

    `ActorClass.remote` and `get_actor` return one. A handle can be passed to tasks and other
    actors. The actor lives until the last handle goes.

    Args:
        ref: The reference that stands for the actor.
        meta: What is known of its class: its name, and its methods with their signatures.

    Example:
        >>> @skate.remote
        ... class Stack:
        ...     def __init__(self) -> None:
        ...         self.items: list[int] = []
        ...     def push(self, item: int) -> int:
        ...         self.items.append(item)
        ...         return len(self.items)
        >>> stack = Stack.remote()
        >>> skate.get([stack.push.remote(item) for item in (7, 8)])
        [1, 2]
    """

    _ref: ObjectRef[None]
    _meta: ActorMeta

    def __init__(self, ref: ObjectRef[None], meta: ActorMeta) -> None:
        self._ref = ref
        self._meta = meta

    def __getattr__(self, name: str) -> ActorMethod[..., Any, Any]:
        # Reached once per name: what is found is kept in __dict__. The method holds the
        # reference rather than the handle, which would make a cycle of every handle in use.
        if "_meta" not in self.__dict__:
            raise AttributeError(name)
        meta = self._meta.methods.get(name) or _BUILT_IN.get(name)
        if meta is None:
            raise self._no_method(name)
        class_name = self._meta.qualified_name or self._meta.class_name
        method: ActorMethod[..., Any, Any] = ActorMethod(self._ref, class_name, meta)
        self.__dict__[name] = method
        return method

    def _no_method(self, name: str) -> AttributeError:
        near = nearest_names(name, self._meta.methods, 3)
        if near:
            hint = f"did you mean {' or '.join(near)}?"
        else:
            hint = f"what `self.{name}` is there, a method of the class can return"
        return AttributeError(
            f"actor {self._meta.class_name} has no attribute {name!r}: it has methods only, and "
            f"none of that name; {hint}",
            name=name,  # so that Python adds no suggestion of its own to ours
            obj=None,
        )

    @property
    def _actor_id(self) -> ActorID:
        return actor_id_of(self._ref)

    @property
    def _ray_actor_id(self) -> ActorID:
        return actor_id_of(self._ref)

    def __dir__(self) -> list[str]:
        return ["__init__", *self._meta.methods, *_BUILT_IN]

    def __repr__(self) -> str:
        return f"Actor({self._meta.class_name}, {self._actor_id.hex()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._ref is other._ref

    def __hash__(self) -> int:
        return hash(self._ref)

    def __reduce__(self) -> tuple[object, ...]:
        return ActorHandle, (self._ref, self._meta)


class ActorMethod(RemoteCallable[P, R_co, Out_co]):
    """A method of an actor; `.remote(...)` calls it and returns a reference at once.

    `ActorMethod[[int], str]` is one of an int; its calls are `ObjectRef[str]`.
    """

    __slots__ = ("_arity", "_class_name", "_meta", "_name", "_options", "_ref", "remote")

    def __init__(
        self,
        ref: ObjectRef[None],
        class_name: str,
        meta: MethodMeta,
        options: CallOptions | None = None,
    ) -> None:
        self._ref: ObjectRef[None] = ref
        self._class_name: str = class_name  # the qualified one
        self._meta: MethodMeta = meta
        self._name: str = meta.name
        self._options: CallOptions = options or meta.options
        self._arity: Arity = meta.signature or ANYTHING
        call = _calling(ref, class_name, meta, self._options)
        self.remote: RemoteCall[Callable[P, Out_co]] = decorated(meta.invocation, call)

    @property
    def _num_returns(self) -> int | str:
        """How many references a call returns; wrappers of Ray's handles look at it."""
        return self._options.num_returns

    def _remote(
        self, args: Any = (), kwargs: dict[str, object] | None = None, **options: Any
    ) -> Any:
        """Call `options(...).remote(...)`; an older spelling."""
        method: Any = self.options(**options) if options else self
        return method.remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: object, **kwargs: object) -> Any:
        """Return a node of a graph that makes this call when it is executed; see `skate.dag`."""
        from skate.dag.class_node import bound_method

        self._arity.check(f"{_short(self._class_name)}.{self._name}", args, kwargs)
        return bound_method(self, args, kwargs, option_table.given_from(self._options))

    @overload
    def options(self, **options: Unpack[CallKeywords]) -> ActorMethod[P, R_co, Out_co]: ...
    @overload
    def options(
        self, *, num_returns: Literal["streaming", 1] | None, **options: Unpack[CallKeywords]
    ) -> ActorMethod[P, R_co, Out_co]: ...
    @overload
    def options(
        self, *, num_returns: Literal[0], **options: Unpack[CallKeywords]
    ) -> ActorMethod[P, R_co, None]: ...
    @overload
    def options(
        self,
        *,
        num_returns: Literal[2, 3, 4, 5, 6, 7, 8, 9, 10],
        **options: Unpack[CallKeywords],
    ) -> ActorMethod[P, R_co, list[ObjectRef[Any]]]: ...
    @overload
    def options(
        self, *, num_returns: int | Literal["dynamic"], **options: Unpack[CallKeywords]
    ) -> ActorMethod[P, R_co, Any]: ...
    @showing_keywords(option_table.names_of(option_table.CALL))
    def options(self, **options: object) -> Any:
        """Return the same method with some options changed.

        Args:
            **options: Those of a call, with the meaning that `method` gives them: `num_returns`,
                `name`, `concurrency_group`, `max_task_retries`, `retry_exceptions`,
                `enable_task_events`, `tensor_transport`.
        """
        changed = option_table.check_options(option_table.CALL, options)
        given = {**option_table.given_from(self._options), **changed}
        call = option_table.call_options(given, generator=self._meta.is_generator)
        return ActorMethod(self._ref, self._class_name, self._meta, call)

    if not TYPE_CHECKING:  # for checkers a method cannot be called elsewhere, as in fact it cannot

        def __call__(self, *args, **kwargs):
            raise TypeError(
                f"Actor methods cannot be called directly: use handle.{self._name}.remote(...)"
            )

        @property
        def __signature__(self):
            return inspect.signature(self._arity.shown or self._arity)

    def __repr__(self) -> str:
        return f"ActorMethod({_short(self._class_name)}.{self._name})"

    def __reduce__(self) -> tuple[object, ...]:
        return ActorMethod, (self._ref, self._class_name, self._meta, self._options)


def _short(qualified_name: str) -> str:
    return qualified_name.rpartition(".")[2]


def decorated(decorator: Any, remote: RemoteCall[Any]) -> RemoteCall[Any]:
    """Return the function behind `.remote` as a decorator of calls changes it, if there is one.

    It is given a function of `(args, kwargs)` that makes the call, and returns another of these.
    """
    if decorator is None:
        return remote

    def changed(*args: object, **kwargs: object) -> Any:
        return decorator(lambda args, kwargs: remote(*args, **kwargs))(args, kwargs)

    wrapped = getattr(remote, "__wrapped__", None)
    shown: RemoteCall[Any] = looking_like(wrapped, remote.__doc__, changed)
    return shown


def looking_like(wrapped: object, doc: str | None, call: Any) -> Any:
    """Return a function as what is behind `.remote`.

    Args:
        wrapped: What it calls elsewhere, whose signature `inspect` shows.
        doc: The docstring that `help()` shows.
        call: The function.
    """
    call.__wrapped__, call.__doc__ = wrapped, doc
    return call


def _calling(
    ref: ObjectRef[None], class_name: str, meta: MethodMeta, options: CallOptions
) -> RemoteCall[Any]:
    """Return the function behind `handle.method.remote`, which looks like the method."""
    name, is_traced, arity = meta.name, meta.is_traced, meta.signature or ANYTHING
    low, high = arity.low, arity.high
    shown = f"{_short(class_name)}.{name}"

    def remote(*args: object, **kwargs: object) -> Any:
        if kwargs or not low <= len(args) <= high:
            arity.check(shown, args, kwargs)
        engine = _engine._current or engine_of_actor()
        if is_traced and _engine.tracer is not None:
            return _engine.tracer.call_actor(engine, class_name, ref, name, args, kwargs, options)
        return engine.call_actor(ref, name, args, kwargs, options)

    doc = arity.shown.__doc__ if arity.shown is not None else None
    call: RemoteCall[Any] = looking_like(arity.shown or arity, doc, remote)
    return call
