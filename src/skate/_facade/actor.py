"""Remote classes; `methods` has what is known of their methods, `actor_handle` the handles."""

from __future__ import annotations

import os
import types
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import skate.engine as _engine
from skate._core import options as option_table
from skate._core.errors import without_own_frames
from skate._core.signature import Arity, arity_of, showing_keywords
from skate._facade.actor_handle import ActorHandle, looking_like
from skate._facade.calls import ActorMaker, C_co, Maker_co, TypedActor
from skate._facade.methods import meta_of
from skate.engine import current_engine
from skate.engine.specs import ActorMeta, ActorOptions, ClassSpec

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate._facade.calls import ActorCall
    from skate._facade.option_keywords import ActorKeywords
    from skate.dag import ClassNode

# A class that comes back to this process inside a value is the one that left it, so that its
# code is sent to each worker once.
_specs: WeakValueDictionary[str, ClassSpec] = WeakValueDictionary()


class ActorClassInheritanceError(TypeError):
    """A remote class was given as a base class."""


class ActorClass(ActorMaker[C_co, Maker_co]):
    """Make instances of a class elsewhere: `.remote(...)` returns a handle at once.

    `@skate.remote` makes it of a class. `ActorClass[Counter]` in an annotation is one whose
    handles are `ActorHandle[Counter]`.

    Args:
        cls: The plain class.
        given: Options of its actors, as `remote` lists them.

    Example:
        >>> @skate.remote
        ... class Counter:
        ...     def __init__(self, start: int = 0) -> None:
        ...         self.value = start
        ...     def add(self, amount: int) -> int:
        ...         self.value += amount
        ...         return self.value
        >>> counter = Counter.remote(10)
        >>> skate.get([counter.add.remote(1), counter.add.remote(2)])
        [11, 13]
    """

    def __init__(self, cls: type[C_co], given: option_table.Given) -> None:
        self._token: str = os.urandom(12).hex()
        self._given: option_table.Given = given
        self._options: ActorOptions = option_table.actor_options(given)
        self._arity: Arity = arity_of(cls)
        meta = meta_of(cls)
        _check_groups(meta, self._options)
        self._attach(ClassSpec(cls, meta))

    def _attach(self, spec: ClassSpec) -> None:
        self._spec: ClassSpec = _specs.setdefault(self._token, spec)
        cls = self._spec.cls
        self._cls: type[C_co] = cls
        self.__doc__ = cls.__doc__
        self.__name__: str = cls.__name__
        self.__qualname__: str = cls.__qualname__
        self.__module__ = cls.__module__
        self.remote: ActorCall[Maker_co] = _making(
            self._spec, self._arity, self._given, self._options
        )

    def _remote(
        self, args: Any = (), kwargs: dict[str, object] | None = None, **actor_options: Any
    ) -> ActorHandle[C_co]:
        """Call `options(...).remote(...)`; an older spelling."""
        cls: Any = self.options(**actor_options) if actor_options else self
        handle: ActorHandle[C_co] = cls.remote(*(args or ()), **(kwargs or {}))
        return handle

    def bind(self, /, *args: object, **kwargs: object) -> ClassNode:
        """Return a node of a graph that starts an actor when it is executed; see `skate.dag`.

        Args:
            *args: Arguments of the constructor; nodes are replaced by their values.
            **kwargs: Keyword arguments of the constructor.
        """
        from skate.dag import ClassNode

        return ClassNode(self, args, kwargs)

    @showing_keywords(option_table.names_of(option_table.ACTOR, fixed=False))
    def options(self, **options: Unpack[ActorKeywords]) -> ActorClass[C_co, Maker_co]:
        """Return the same class with some options changed.

        Args:
            **options: Those of an actor, with the meaning that `remote` gives them: `num_cpus`,
                `num_gpus`, `memory`, `object_store_memory`, `resources`, `accelerator_type`;
                `name`, `namespace`, `lifetime`, `get_if_exists`; `max_restarts`,
                `max_task_retries`, `max_concurrency`, `max_pending_calls`,
                `allow_out_of_order_execution`; `runtime_env`, `enable_task_events`,
                `enable_tensor_transport`; `scheduling_strategy`, `placement_group`,
                `placement_group_bundle_index`, `placement_group_capture_child_tasks`,
                `label_selector`, `fallback_strategy`.

        Raises:
            ValueError: If there is no such option, or it does not take that value, or it is
                `concurrency_groups`, which belong to the class.

        Example:
            >>> @skate.remote
            ... class Greeter:
            ...     def greet(self) -> str:
            ...         return "hello"
            >>> greeter = Greeter.options(name="greeter", max_restarts=1).remote()
            >>> skate.get(skate.get_actor("greeter").greet.remote())
            'hello'
        """
        checked = option_table.check_options(option_table.ACTOR, options)
        if "concurrency_groups" in checked:
            raise ValueError(
                f"concurrency_groups is not supported in .options(): the methods of "
                f"{self.__name__} say which group runs them, so that the groups belong to the "
                "class; give them to @remote(concurrency_groups=...)"
            )
        given = {**self._given, **checked}
        clone: ActorClass[C_co, Maker_co] = object.__new__(ActorClass)
        clone.__dict__.update(self.__dict__, _given=given)
        clone._options = option_table.actor_options(given)
        clone.remote = _making(self._spec, self._arity, given, clone._options)
        return clone

    if not TYPE_CHECKING:  # for checkers an actor class cannot be called, as in fact it cannot

        def __call__(self, *args, **kwargs):
            name = self._cls.__name__
            raise TypeError(
                f"Actors cannot be instantiated directly: use {name}.remote(...) for an actor, or "
                f"{name}._cls(...) for a plain object"
            )

    @property
    def __ray_actor_class__(self) -> type[C_co]:
        """The plain class, as Ray calls it."""
        return self._cls

    @property
    def __ray_metadata__(self) -> types.SimpleNamespace:
        """What programs read of Ray's description: the plain class and its name."""
        return types.SimpleNamespace(modified_class=self._cls, class_name=self._cls.__name__)

    def __mro_entries__(self, bases: tuple[object, ...]) -> tuple[type, ...]:
        name = self._cls.__name__
        raise ActorClassInheritanceError(
            f"Inheriting from actor classes is not currently supported. Derive from the plain "
            f"class ({name}._cls, or do not decorate {name}) and make the derived class remote"
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


def _making(
    spec: ClassSpec, arity: Arity, given: option_table.Given, options: ActorOptions
) -> ActorCall[Any]:
    """Return the function behind `A.remote`, which shows the signature of the constructor."""
    name = spec.cls.__name__
    ordered = given.get("allow_out_of_order_execution") is False

    def remote(*args: object, **kwargs: object) -> ActorHandle[Any]:
        if kwargs or not arity.low <= len(args) <= arity.high:
            arity.check(name, args, kwargs)
        if ordered:
            _check_ordered(name, spec, options)
        engine = current_engine()
        try:
            if _engine.tracer is not None:
                made = _engine.tracer.create_actor(engine, spec, args, kwargs, options)
            else:
                made = engine.create_actor(spec, args, kwargs, options)
        except TypeError as error:  # what cannot be pickled
            raise without_own_frames(error)
        return ActorHandle(*made)

    shown: ActorCall[Any] = looking_like(spec.cls, spec.cls.__doc__, remote)
    return shown


def _check_ordered(name: str, spec: ClassSpec, options: ActorOptions) -> None:
    """Raise ValueError if calls run concurrently, and so in no order that could be kept."""
    kind = "async" if spec.meta.is_async else "multi-threaded"
    if spec.meta.is_async or (options.max_concurrency or 1) > 1:
        raise ValueError(
            f"{name} is {kind}: its calls run at the same time, so that their order cannot be "
            "kept; leave allow_out_of_order_execution=False out"
        )


class Actor(TypedActor):
    """A base for remote classes whose handles are to be checked, and that does nothing else.

    To a type checker, the handle of an actor is an instance of such a class: what is under
    `@method` can be called with `.remote(...)`, with the parameters and the result that it has.
    Handles of other classes take all calls.

        @skate.remote
        class Counter(skate.Actor):
            @skate.method
            def add(self, n: int) -> int: ...

        counter: Counter = Counter.remote()
        counter.add.remote(2)  # ObjectRef[int]
    """

    __slots__ = ()


def exit_actor() -> None:
    """End the actor that runs this code; `get` of this call raises ActorDiedError."""
    engine = current_engine()
    if engine.context().actor is None:
        raise TypeError(
            "the exit_actor API is called on a non-actor worker: it ends the actor whose method "
            "calls it, and this code runs in none"
        )
    engine.exit_actor()


def _check_groups(meta: ActorMeta, options: ActorOptions) -> None:
    """Raise if a method belongs to a concurrency group that its class does not have."""
    for method in meta.methods.values():
        group = method.options.concurrency_group
        if group is not None and group not in options.concurrency_groups:
            there = ", ".join(options.concurrency_groups) or "none"
            raise ValueError(
                f"{meta.class_name}.{method.name} belongs to the concurrency group {group!r}, "
                f"which the class does not have (it has {there}): say how many calls may run "
                f"there, as in @remote(concurrency_groups={{{group!r}: 2}})"
            )
