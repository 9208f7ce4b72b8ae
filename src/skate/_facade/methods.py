"""Methods of remote classes: their options, and what handles know of them."""

from __future__ import annotations

import inspect
import types
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from typing import TYPE_CHECKING, Any, Concatenate, Final, Literal, TypeVar, overload

from skate._core import options as option_table
from skate._core.signature import arity_of, showing_keywords
from skate._facade.calls import P
from skate.engine.specs import ActorMeta, MethodMeta

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from skate._core.refs import ObjectRef, ObjectRefGenerator
    from skate._facade.calls import (
        Method,
        MethodDecorator,
        MethodDecoratorOf,
        Unannotated,
    )
    from skate._facade.option_keywords import CallKeywords

MYPY: Final = False  # mypy takes it for True: where it and pyright need different overloads

R = TypeVar("R")
Self = TypeVar("Self")

_METHOD_OPTIONS = "__skate_method__"
INVOCATION_DECORATOR = "__ray_invocation_decorator__"  # an attribute of functions; Ray's name


# The first that fits is the most special one: they overlap on purpose.
if not MYPY:

    @overload
    def method(
        function: Callable[Concatenate[Self, P], Unannotated], /
    ) -> Method[Self, P, Any, Any]: ...


@overload
def method(  # type: ignore[overload-overlap]
    function: Callable[Concatenate[Self, P], AsyncIterator[R]], /
) -> Method[Self, P, AsyncIterator[R], ObjectRefGenerator[R]]: ...
@overload
def method(  # type: ignore[overload-overlap]
    function: Callable[Concatenate[Self, P], Iterator[R]], /
) -> Method[Self, P, Iterator[R], ObjectRefGenerator[R]]: ...
@overload
def method(
    function: Callable[Concatenate[Self, P], Coroutine[Any, Any, R]], /
) -> Method[Self, P, Coroutine[Any, Any, R], ObjectRef[R]]: ...
@overload
def method(function: Callable[Concatenate[Self, P], R], /) -> Method[Self, P, R, ObjectRef[R]]: ...
@overload
def method(**options: Unpack[CallKeywords]) -> MethodDecorator: ...
@overload
def method(
    *, num_returns: Literal["streaming", 1] | None, **options: Unpack[CallKeywords]
) -> MethodDecorator: ...
@overload
def method(
    *, num_returns: Literal[0], **options: Unpack[CallKeywords]
) -> MethodDecoratorOf[None]: ...
@overload
def method(
    *, num_returns: Literal[2, 3, 4, 5, 6, 7, 8, 9, 10], **options: Unpack[CallKeywords]
) -> MethodDecoratorOf[list[ObjectRef[Any]]]: ...
@overload
def method(
    *, num_returns: int | Literal["dynamic"], **options: Unpack[CallKeywords]
) -> MethodDecoratorOf[Any]: ...
@showing_keywords(option_table.names_of(option_table.CALL))
def method(*args: object, **options: object) -> Any:
    """Give options to one method of a remote class, as in `@method(num_returns=2)`.

    Without options it changes nothing but what type checkers know: see `Actor`.

    Args:
        *args: The function; without it, a decorator is returned.
        **options: How its calls behave; see below.

    Options:
        num_returns: How many values a call has, or "streaming"; each is a reference.
        name: The name of its calls in reports.
        concurrency_group: The group of the actor's `concurrency_groups` that runs it.
        max_task_retries: How often a call is made again when the actor dies; -1 for ever.
        retry_exceptions: Whether its exceptions, or which of them, are a reason as well.
        enable_task_events: Whether `util.state` lists its calls, and the timeline shows them.
        tensor_transport: How Ray carries the tensors of its result from actor to actor; here they
            go through shared memory, and need no group.

    Raises:
        TypeError: If there are a function and options, or something else by position.
        ValueError: If there is no such option, or it does not take that value.

    Example:
        >>> @skate.remote
        ... class Halves:
        ...     @skate.method(num_returns=2)
        ...     def of(self, text: str) -> tuple[str, str]:
        ...         return text[: len(text) // 2], text[len(text) // 2 :]
        >>> skate.get(Halves.remote().of.remote("abcd"))
        ['ab', 'cd']
    """
    if len(args) == 1 and callable(args[0]) and not options:
        return args[0]
    if args:
        raise TypeError(
            "method() takes options by keyword, as in @method(num_returns=2); "
            f"got {args!r}, {options!r}"
        )
    given = option_table.check_options(option_table.CALL, options)

    def mark(function: Callable[..., object]) -> Callable[..., Any]:
        setattr(function, _METHOD_OPTIONS, given)
        return function

    return mark


def meta_of(cls: type) -> ActorMeta:
    """Return what a handle must know of a class."""
    methods = {}
    for name in dir(cls):
        raw = inspect.getattr_static(cls, name)
        function = raw.__func__ if isinstance(raw, (staticmethod, classmethod)) else raw
        if isinstance(function, types.FunctionType):
            methods[name] = _method_meta(name, function, isinstance(raw, staticmethod))
    is_async = any(meta.is_async for meta in methods.values())
    return ActorMeta(cls.__name__, cls.__module__, methods, is_async, cls.__qualname__)


def _method_meta(name: str, function: Callable[..., object], static: bool) -> MethodMeta:
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
        invocation=getattr(function, INVOCATION_DECORATOR, None),
    )
