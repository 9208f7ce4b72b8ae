"""The user's function or class, with its arguments, as it travels to where it runs."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Any

ASYNC_WINDOW = 64  # calls of an async function that are under way at a time


class UserFunction:
    """Calls a function, or an instance of a class that is made once per process."""

    def __init__(
        self,
        fn: Any,
        args: Iterable[Any] = (),
        kwargs: dict[str, Any] | None = None,
        constructor_args: Iterable[Any] = (),
        constructor_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not callable(fn):
            raise TypeError(f"expected a function or a class; got {fn!r}")
        self.fn = fn
        self.is_class = inspect.isclass(fn)
        if not self.is_class and (constructor_args or constructor_kwargs):
            raise ValueError(
                "fn_constructor_args and fn_constructor_kwargs are for classes; "
                f"{name_of(fn)} is a function: use fn_args and fn_kwargs"
            )
        self.args = tuple(args or ())
        self.kwargs = dict(kwargs or {})
        self.constructor_args = tuple(constructor_args or ())
        self.constructor_kwargs = dict(constructor_kwargs or {})
        self._instance: Callable[..., Any] | None = None

    @property
    def name(self) -> str:
        return name_of(self.fn)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_instance": None}

    def load(self) -> Callable[..., Any]:
        if self._instance is None:
            self._instance = (
                self.fn(*self.constructor_args, **self.constructor_kwargs)
                if self.is_class
                else self.fn
            )
        return self._instance

    def results(self, inputs: Iterable[Any]) -> Iterator[tuple[Any, Any]]:
        """(input, what the function made of it), in order. An async function is called for several
        inputs at a time."""
        call = self.load()
        if _is_async(call):
            yield from _gathered(call, inputs, self.args, self.kwargs)
            return
        args, kwargs = self.args, self.kwargs
        for value in inputs:
            try:
                result = call(value, *args, **kwargs)
            except Exception as error:
                raise FunctionError(value) from error
            yield value, result


class FunctionError(Exception):
    """The user's function raised on `value`; the cause is what it raised."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def name_of(fn: Any) -> str:
    """What to call a function in plans and errors."""
    inner = getattr(fn, "func", None)  # functools.partial
    if inner is not None and not hasattr(fn, "__name__"):
        return name_of(inner)
    return str(getattr(fn, "__name__", type(fn).__name__))


def _is_async(call: Callable[..., Any]) -> bool:
    for target in (call, getattr(call, "__call__", None)):  # noqa: B004
        if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
            return True
    return False


def _gathered(
    call: Callable[..., Any], inputs: Iterable[Any], args: Any, kwargs: Any
) -> Iterator[tuple[Any, Any]]:
    import asyncio

    async def one(value: Any) -> Any:
        try:
            outcome = call(value, *args, **kwargs)
            if inspect.isasyncgen(outcome):
                return iter([item async for item in outcome])
            return await outcome
        except Exception as error:
            raise FunctionError(value) from error

    async def several(values: list[Any]) -> list[Any]:
        return await asyncio.gather(*map(one, values))

    loop = asyncio.new_event_loop()
    remaining = iter(inputs)
    try:
        while window := list(islice(remaining, ASYNC_WINDOW)):
            yield from zip(window, loop.run_until_complete(several(window)), strict=True)
    finally:
        loop.close()
