"""Remote classes, the handles to their instances, and the methods of those."""

from __future__ import annotations

import inspect
import os
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import skate.engine as _engine
from skate._core import options as option_table
from skate._core.ids import ActorID, actor_id_of
from skate._core.nearest import nearest_names
from skate._core.refs import ObjectRef
from skate._core.signature import ANYTHING, Arity, arity_of
from skate.engine import current_engine
from skate.engine.base import ActorMeta, CallOptions, ClassSpec, MethodMeta

_METHOD_OPTIONS = "__skate_method__"

# A class that comes back to this process inside a value is the one that left it, so that its
# code is sent to each worker once.
_specs: WeakValueDictionary[str, ClassSpec] = WeakValueDictionary()

# Understood by every actor, without being written in its class.
_BUILT_IN = {
    "__ray_ready__": MethodMeta("__ray_ready__", signature=Arity(())),
    "__ray_terminate__": MethodMeta("__ray_terminate__", signature=Arity(())),
    "__ray_call__": MethodMeta(
        "__ray_call__", signature=Arity((("fn", 0, False), *ANYTHING.parameters))
    ),
}


class ActorClassInheritanceError(TypeError):
    """A remote class was given as a base class."""


class ActorClass:
    """A class whose `.remote(...)` makes an instance elsewhere and returns a handle at once."""

    def __class_getitem__(cls, of: Any) -> types.GenericAlias:
        """Return what `ActorClass[Counter]` means in an annotation."""
        return types.GenericAlias(cls, of)

    def __init__(self, cls: type, given: option_table.Given) -> None:
        self._token = os.urandom(12).hex()
        self._given = given
        self._options = option_table.actor_options(given)
        self._arity = arity_of(cls)
        self._attach(ClassSpec(cls, _meta_of(cls)))

    def _attach(self, spec: ClassSpec) -> None:
        self._spec = _specs.setdefault(self._token, spec)
        self._cls = cls = self._spec.cls
        self.__doc__ = cls.__doc__
        self.__name__ = cls.__name__
        self.__qualname__ = cls.__qualname__
        self.__module__ = cls.__module__

    def remote(self, /, *args: Any, **kwargs: Any) -> ActorHandle:
        """Start an actor; returns its handle at once."""
        if kwargs or not self._arity.low <= len(args) <= self._arity.high:
            self._arity.check(self._cls.__name__, args, kwargs)
        if self._given.get("allow_out_of_order_execution") is False:
            self._check_ordered()
        return ActorHandle(*current_engine().create_actor(self._spec, args, kwargs, self._options))

    def _check_ordered(self) -> None:
        """Raise ValueError if calls run concurrently, and so in no order that could be kept."""
        kind = "async" if self._spec.meta.is_async else "multi-threaded"
        if self._spec.meta.is_async or (self._options.max_concurrency or 1) > 1:
            raise ValueError(
                f"{self._cls.__name__} is {kind}: its calls run at the same time, so that their "
                "order cannot be kept; leave allow_out_of_order_execution=False out"
            )

    def _remote(
        self, args: Any = (), kwargs: dict[str, Any] | None = None, **actor_options: Any
    ) -> ActorHandle:
        """An older spelling of `options(...).remote(...)`."""
        cls = self.options(**actor_options) if actor_options else self
        return cls.remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: Any, **kwargs: Any) -> Any:
        """A node of a graph that starts an actor when it is executed; see `skate.dag`."""
        from skate.dag import ClassNode

        return ClassNode(self, args, kwargs)

    def options(self, **actor_options: Any) -> ActorClass:
        """The same class with some options changed."""
        given = {**self._given, **option_table.check_options(option_table.ACTOR, actor_options)}
        clone = object.__new__(ActorClass)
        clone.__dict__.update(self.__dict__, _given=given)
        clone._options = option_table.actor_options(given)
        return clone

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        name = self._cls.__name__
        raise TypeError(
            f"Actors cannot be instantiated directly: use {name}.remote(...) for an actor, or "
            f"{name}._cls(...) for a plain object"
        )

    @property
    def __ray_actor_class__(self) -> type:
        """The plain class, as Ray calls it."""
        return self._cls

    @property
    def __ray_metadata__(self) -> types.SimpleNamespace:
        """What programs read of Ray's description: the plain class and its name."""
        return types.SimpleNamespace(modified_class=self._cls, class_name=self._cls.__name__)

    def __mro_entries__(self, bases: tuple[Any, ...]) -> tuple[type, ...]:
        name = self._cls.__name__
        raise ActorClassInheritanceError(
            f"Inheriting from actor classes is not possible: derive from the plain class "
            f"({name}._cls, or do not decorate {name}) and make the derived class remote"
        )

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_cls" not in self.__dict__:
            raise AttributeError(name)
        return getattr(self._cls, name)

    def __dir__(self) -> list[str]:
        return [*object.__dir__(self), *self._spec.meta.methods]

    def __repr__(self) -> str:
        return f"ActorClass({self._cls.__name__})"

    def __getstate__(self) -> dict[str, Any]:
        kept = ("_token", "_given", "_options", "_arity")
        state = {key: self.__dict__[key] for key in kept}
        return {**state, "cls": self._cls, "meta": self._spec.meta}

    def __setstate__(self, state: dict[str, Any]) -> None:
        spec = ClassSpec(state.pop("cls"), state.pop("meta"))
        self.__dict__.update(state)
        self._attach(spec)


class ActorHandle:
    """A reference to an actor: its methods are attributes with `.remote(...)`.

    A handle can be passed to tasks and other actors. The actor lives until the last handle goes.
    """

    _ref: ObjectRef[Any]
    _meta: ActorMeta

    def __class_getitem__(cls, of: Any) -> types.GenericAlias:
        """Return what `ActorHandle[Counter]` means in an annotation."""
        return types.GenericAlias(cls, of)

    def __init__(self, ref: ObjectRef[Any], meta: ActorMeta) -> None:
        self._ref = ref
        self._meta = meta

    def __getattr__(self, name: str) -> ActorMethod:
        # Reached once per name: what is found is kept in __dict__. The method holds the
        # reference rather than the handle, which would make a cycle of every handle in use.
        if "_meta" not in self.__dict__:
            raise AttributeError(name)
        meta = self._meta.methods.get(name) or _BUILT_IN.get(name)
        if meta is None:
            raise self._no_method(name)
        method = ActorMethod(self._ref, self._meta.class_name, meta)
        self.__dict__[name] = method
        return method

    def _no_method(self, name: str) -> AttributeError:
        near = nearest_names(name, self._meta.methods, 3)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        return AttributeError(
            f"actor {self._meta.class_name} has no attribute {name!r}: it has methods only, and "
            f"none of that name{hint}"
        )

    @property
    def _actor_id(self) -> ActorID:
        return actor_id_of(self._ref)

    @property
    def _ray_actor_id(self) -> ActorID:
        return actor_id_of(self._ref)

    def __dir__(self) -> list[str]:
        return [*self._meta.methods, *_BUILT_IN]

    def __repr__(self) -> str:
        return f"Actor({self._meta.class_name}, {self._actor_id.hex()})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ActorHandle) and self._ref is other._ref

    def __hash__(self) -> int:
        return hash(self._ref)

    def __reduce__(self) -> Any:
        return ActorHandle, (self._ref, self._meta)


class ActorMethod:
    """A method of an actor; `.remote(...)` calls it and returns a reference at once."""

    __slots__ = ("_arity", "_class_name", "_high", "_low", "_meta", "_name", "_options", "_ref")

    def __init__(
        self,
        ref: ObjectRef[Any],
        class_name: str,
        meta: MethodMeta,
        options: CallOptions | None = None,
    ) -> None:
        self._ref = ref
        self._class_name = class_name
        self._meta = meta
        self._name = meta.name
        self._options = options or meta.options
        self._arity: Arity = meta.signature or ANYTHING
        self._low, self._high = self._arity.low, self._arity.high

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Call the method; returns a reference, or as many as `num_returns` says."""
        if kwargs or not self._low <= len(args) <= self._high:
            self._arity.check(f"{self._class_name}.{self._name}", args, kwargs)
        engine = _engine._current or current_engine()
        return engine.call_actor(self._ref, self._name, args, kwargs, self._options)

    def _remote(self, args: Any = (), kwargs: dict[str, Any] | None = None, **options: Any) -> Any:
        """An older spelling of `options(...).remote(...)`."""
        method = self.options(**options) if options else self
        return method.remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: Any, **kwargs: Any) -> Any:
        """A node of a graph that makes this call when it is executed; see `skate.dag`."""
        from skate.dag.class_node import bound_method

        self._arity.check(f"{self._class_name}.{self._name}", args, kwargs)
        return bound_method(self, args, kwargs, option_table.given_from(self._options))

    def options(self, **options: Any) -> ActorMethod:
        """The same method with some options changed."""
        changed = option_table.check_options(option_table.CALL, options)
        given = {**option_table.given_from(self._options), **changed}
        call = option_table.call_options(given, generator=self._meta.is_generator)
        return ActorMethod(self._ref, self._class_name, self._meta, call)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise TypeError(
            f"Actor methods cannot be called directly: use handle.{self._name}.remote(...)"
        )

    def __repr__(self) -> str:
        return f"ActorMethod({self._class_name}.{self._name})"

    def __reduce__(self) -> Any:
        return ActorMethod, (self._ref, self._class_name, self._meta, self._options)


def method(*args: Any, **kwargs: Any) -> Any:
    """Options of one method of a remote class, as in `@method(num_returns=2)`."""
    if len(args) == 1 and callable(args[0]) and not kwargs:
        return args[0]
    if args or not kwargs:
        raise TypeError(
            "method() takes options by keyword, as in @method(num_returns=2); "
            f"got {args!r}, {kwargs!r}"
        )
    given = option_table.check_options(option_table.CALL, kwargs)

    def mark(function: Callable[..., Any]) -> Callable[..., Any]:
        setattr(function, _METHOD_OPTIONS, given)
        return function

    return mark


def exit_actor() -> None:
    """End the actor that runs this code; `get` of this call raises ActorDiedError."""
    engine = current_engine()
    if engine.context().actor is None:
        raise TypeError(
            "exit_actor() was called on a non-actor worker: it ends the actor whose method "
            "calls it, and this code runs in none"
        )
    engine.exit_actor()


# -- what handles know of a class ---------------------------------------------------------------


def _meta_of(cls: type) -> ActorMeta:
    methods = {}
    for name in dir(cls):
        raw = inspect.getattr_static(cls, name)
        function = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
        if isinstance(function, types.FunctionType):
            methods[name] = _method_meta(name, function, isinstance(raw, staticmethod))
    is_async = any(meta.is_async for meta in methods.values())
    return ActorMeta(cls.__name__, cls.__module__, methods, is_async)


def _method_meta(name: str, function: Callable[..., Any], static: bool) -> MethodMeta:
    inner = inspect.unwrap(function)
    is_async_generator = inspect.isasyncgenfunction(inner)
    is_generator = inspect.isgeneratorfunction(inner) or is_async_generator
    given = getattr(function, _METHOD_OPTIONS, {})
    return MethodMeta(
        name,
        option_table.call_options(given, generator=is_generator),
        is_async=inspect.iscoroutinefunction(inner) or is_async_generator,
        is_generator=is_generator,
        signature=arity_of(function, skip_first=not static),
    )
