"""The user's function or class, with its arguments, as it travels to where it runs."""

from __future__ import annotations

import inspect
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from itertools import count, islice
from typing import Any

from skate._core.argument_checks import wrong_type
from skate._core.errors import add_note
from skate.data._execution.udf_retries import Retries

ASYNC_WINDOW = 64  # calls of an async function that are under way at a time


class UserFunction:
    """Calls a function, or an instance of a class that is made once per process."""

    def __init__(
        self,
        fn: Any,
        args: Iterable[object] = (),
        kwargs: dict[str, Any] | None = None,
        constructor_args: Iterable[object] = (),
        constructor_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if not callable(fn):
            raise FunctionTypeError(
                f"fn must be a UserDefinedFunction: a function or a class; got {fn!r}"
            )
        for name, given in (("fn_args", args), ("fn_constructor_args", constructor_args)):
            if not isinstance(given, (Iterable, type(None))):
                raise wrong_type(name, given, "a list or tuple of arguments")
        self.fn = fn
        self.is_class: bool = inspect.isclass(fn)
        if inspect.isclass(fn) and not any("__call__" in vars(each) for each in fn.__mro__):
            raise FunctionTypeError(
                f"the class {fn.__name__} has no method __call__, to be called with each row or "
                "batch: define it, or give a function"
            )
        if not self.is_class and (constructor_args or constructor_kwargs):
            raise ValueError(
                "fn_constructor_args and fn_constructor_kwargs are for classes; "
                f"{name_of(fn)} is a function: use fn_args and fn_kwargs"
            )
        self.args: tuple[Any, ...] = tuple(args or ())
        self.kwargs: dict[str, Any] = dict(kwargs or {})
        self.constructor_args: tuple[Any, ...] = tuple(constructor_args or ())
        self.constructor_kwargs: dict[str, Any] = dict(constructor_kwargs or {})
        self._instance: Callable[..., Any] | None = None
        self._events: EventLoop | None = None
        self._thread: ThreadPoolExecutor | None = None

    @property
    def name(self) -> str:
        return name_of(self.fn)

    @property
    def retries(self) -> Retries:
        """By the settings of the execution that this is a part of."""
        return Retries.from_settings(self.is_class)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_instance": None, "_events": None, "_thread": None}

    def call_in_one_thread(self) -> None:
        """Let calls wait for each other from now on, in an actor that runs several jobs at a time:
        a model need not be safe for threads."""
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="skate-data-udf")

    def load(self) -> Callable[..., Any]:
        """Return what is called: the function, or the instance, which the first call makes."""
        if self._instance is None:
            self._one_by_one(self._load)()  # jobs that begin together share one
        assert self._instance is not None
        return self._instance

    def _load(self) -> None:
        if self._instance is None:
            instance = self._construct() if self.is_class else self.fn
            self._events = EventLoop() if _is_async(instance) else None
            self._instance = instance  # last: from here on others use both

    def _construct(self) -> Callable[..., Any]:
        for failures in count(1):
            try:
                instance: Callable[..., Any] = self.fn(
                    *self.constructor_args, **self.constructor_kwargs
                )
            except Exception as error:
                if not self.retries.construct_again(failures):
                    add_note(error, f"in the constructor of {self.name}")
                    raise
            else:
                break
        return instance

    def results(self, inputs: Iterable[object]) -> Iterator[tuple[Any, Any]]:
        """Yield pairs of an input and what the function made of it, in order. An async function is
        called for several inputs at a time."""
        call = self.load()
        if self._events is not None:
            yield from self._overlapping(call, inputs, self._events)
            return
        args, kwargs = self.args, self.kwargs
        call = self._one_by_one(call)
        for value in inputs:
            try:
                result = call(value, *args, **kwargs)
            except Exception as error:
                if not self.retries.again(error, 1):
                    raise FunctionError(value) from error
                result = self._called_again(call, value)
            yield value, result

    def _one_by_one(self, call: Callable[..., object]) -> Callable[..., Any]:
        thread = self._thread
        if thread is None:
            return call
        return lambda *args, **kwargs: thread.submit(
            copy_context().run, call, *args, **kwargs
        ).result()

    def _called_again(self, call: Callable[..., object], value: object) -> Any:
        failures = 1
        while True:
            try:
                return call(value, *self.args, **self.kwargs)
            except Exception as error:
                failures += 1
                if not self.retries.again(error, failures):
                    raise FunctionError(value) from error

    def _overlapping(
        self, call: Callable[..., object], inputs: Iterable[object], events: EventLoop
    ) -> Iterator[tuple[Any, Any]]:
        """Yield as `results` does: in order, with several calls under way."""
        waiting: deque[tuple[Any, Any]] = deque()
        remaining = iter(inputs)
        try:
            while True:
                for value in islice(remaining, ASYNC_WINDOW - len(waiting)):
                    waiting.append((value, events.start(self._awaited(call, value))))
                if not waiting:
                    return
                value, future = waiting.popleft()
                yield value, future.result()
        finally:
            for _, future in waiting:
                future.cancel()

    async def _awaited(self, call: Callable[..., Any], value: Any) -> Any:
        failures = 0
        while True:
            try:
                outcome = call(value, *self.args, **self.kwargs)
                if inspect.isasyncgen(outcome):
                    return iter([item async for item in outcome])
                return await outcome
            except Exception as error:
                failures += 1
                if not self.retries.again(error, failures):
                    raise FunctionError(value) from error


class FunctionTypeError(TypeError, ValueError):
    """What was given as a function is none, or returns what no such function does. Ray raises a
    ValueError."""

    __module__ = "skate.data.exceptions"  # where programs find it


class FunctionError(Exception):
    """The user's function raised on `value`; the cause is what it raised."""

    def __init__(self, value: Any) -> None:
        super().__init__(value)
        self.value = value


def name_of(fn: object) -> str:
    """Name a function as plans and errors call it."""
    inner = getattr(fn, "func", None)  # functools.partial
    if inner is not None and not hasattr(fn, "__name__"):
        return name_of(inner)
    return str(getattr(fn, "__name__", type(fn).__name__))


def _is_async(call: Callable[..., object]) -> bool:
    for target in (call, getattr(call, "__call__", None)):  # noqa: B004
        if inspect.iscoroutinefunction(target) or inspect.isasyncgenfunction(target):
            return True
    return False


def iterated(value: object, results: Iterable[object]) -> Iterator[Any]:
    """Yield what a generator gives for an input; its errors are the function's."""
    iterator = iter(results)
    while True:
        try:
            result = next(iterator)
        except StopIteration:
            return
        except Exception as error:
            raise FunctionError(value) from error
        yield result


class EventLoop:
    """An event loop in a thread of its own, for all calls of one function: clients and queues
    that an async class keeps belong to the loop that they were made in."""

    def __init__(self) -> None:
        import asyncio
        import threading

        self.loop = asyncio.new_event_loop()
        thread = threading.Thread(
            target=_run_loop, args=(self.loop,), name="skate-data-async", daemon=True
        )
        thread.start()
        weakref.finalize(self, self.loop.call_soon_threadsafe, self.loop.stop)

    def start(self, coroutine: Any) -> Any:
        """Start the coroutine in the loop, and return a future of it."""
        import asyncio

        return asyncio.run_coroutine_threadsafe(coroutine, self.loop)


def _run_loop(loop: Any) -> None:
    loop.run_forever()
    loop.close()
