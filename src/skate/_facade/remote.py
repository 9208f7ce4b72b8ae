"""`@remote`, and what it makes of a function."""

from __future__ import annotations

import functools
import inspect
import os
import types
from collections.abc import Callable
from typing import Any
from weakref import WeakValueDictionary

import skate.engine as _engine
from skate._core import options as option_table
from skate._core.signature import Arity, arity_of
from skate._facade.actor import ActorClass
from skate.engine import current_engine
from skate.engine.base import FunctionSpec

_FUNCTIONS = (
    types.FunctionType,
    types.BuiltinFunctionType,
    types.MethodType,
    functools.partial,
)

# A remote function that comes back to this process inside a value is the one that left it, so
# that its code is sent to each worker once.
_specs: WeakValueDictionary[str, FunctionSpec] = WeakValueDictionary()


class RemoteFunction:
    """A function whose `.remote(...)` runs it elsewhere and returns a reference at once."""

    def __init__(self, function: Callable[..., Any], given: option_table.Given) -> None:
        self._token = os.urandom(12).hex()
        self._generator = _is_generator(function)
        self._given = given
        self._options = option_table.task_options(given, generator=self._generator)
        self._accept(arity_of(function))
        self._attach(FunctionSpec(function, _name_of(function)))

    def _attach(self, spec: FunctionSpec) -> None:
        self._spec = _specs.setdefault(self._token, spec)
        self._function = self.__wrapped__ = self._spec.function
        self.__doc__ = self._function.__doc__
        self.__name__ = self._spec.name
        self.__module__ = getattr(self._function, "__module__", "")

    def _accept(self, arity: Arity) -> None:
        self._arity, self._low, self._high = arity, arity.low, arity.high

    def remote(self, /, *args: Any, **kwargs: Any) -> Any:
        """Start the task; returns a reference, or as many as `num_returns` says."""
        if kwargs or not self._low <= len(args) <= self._high:
            self._arity.check(self._spec.name, args, kwargs)
        engine = _engine._current or current_engine()
        return engine.submit(self._spec, args, kwargs, self._options)

    def _remote(
        self, args: Any = (), kwargs: dict[str, Any] | None = None, **task_options: Any
    ) -> Any:
        """An older spelling of `options(...).remote(...)`."""
        function = self.options(**task_options) if task_options else self
        return function.remote(*(args or ()), **(kwargs or {}))

    def bind(self, /, *args: Any, **kwargs: Any) -> Any:
        """A node of a graph that makes this call when it is executed; see `skate.dag`."""
        from skate.dag import FunctionNode

        return FunctionNode(self, args, kwargs)

    def options(self, **task_options: Any) -> RemoteFunction:
        """The same function with some options changed."""
        if "max_calls" in task_options:
            raise ValueError(
                "'max_calls' is not supported in .options(): it belongs to the function, so give "
                "it to @remote"
            )
        given = {**self._given, **option_table.check_options(option_table.TASK, task_options)}
        clone = object.__new__(RemoteFunction)
        clone.__dict__.update(self.__dict__, _given=given)
        clone._options = option_table.task_options(given, generator=self._generator)
        return clone

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
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
        self._accept(state["_arity"])
        self._attach(spec)


def _is_generator(function: Any) -> bool:
    function = inspect.unwrap(_innermost(function))
    return inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)


def _name_of(function: Any) -> str:
    return str(_innermost(function).__name__)


def _innermost(function: Any) -> Any:
    while isinstance(function, functools.partial):
        function = function.func
    return function


def remote(*args: Any, **kwargs: Any) -> Any:
    """Make a function or a class remote.

    As `@remote`, as `@remote(num_cpus=2, num_returns=2, ...)`, or as `remote(function)`.

        @skate.remote
        def square(x):
            return x * x

        skate.get(square.remote(3))
    """
    if len(args) == 1 and not kwargs:
        return _make(args[0], {})
    if args:
        raise TypeError(
            f"remote() takes options by keyword only, as in @remote(num_cpus=1); got {args!r}"
        )
    if not kwargs:
        raise TypeError("use @remote without parentheses, or with options: @remote(num_cpus=1)")
    option_table.check_names(kwargs)
    return functools.partial(_make, given=kwargs)


def _make(target: Any, given: dict[str, Any]) -> RemoteFunction | ActorClass:
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
