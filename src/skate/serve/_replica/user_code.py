"""The user's class or function inside a replica: made, called, reconfigured, ended.

Coroutines run on the replica's event loop; plain functions in threads, so that they may block.
"""

from __future__ import annotations

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable, Generator
from typing import Any

from skate._core.nearest import nearest_names
from skate.serve._replica.threads import UserCodeThreads
from skate.serve._routing.requests import Arguments, NamedArguments
from skate.serve.exceptions import SkateServeError
from skate.serve.multiplex import unload_all

logger = logging.getLogger("skate.serve")

Function = Callable[..., Any]  # of the user

_END: Any = object()


class UserCode:
    """Makes one instance of the user's class, and calls it."""

    def __init__(
        self, target: Function, args: Arguments, kwargs: NamedArguments, threads: int
    ) -> None:
        self._target = target
        self._args = args
        self._kwargs = kwargs
        self.instance: Any = None
        self.app: Any = None  # the ASGI application of an ingress
        self._kinds: dict[str, tuple[Function, bool]] = {}
        self._threads = UserCodeThreads(max(1, threads))

    @property
    def name(self) -> str:
        """The name of the class or function."""
        return getattr(self._target, "__name__", type(self._target).__name__)

    async def construct(self) -> None:
        """Make the instance. On the loop, so that it may start tasks and keep loops."""
        if not inspect.isclass(self._target):
            self.instance = self._target
            return
        self.instance = (
            self._target.__new__(self._target, *self._args, **self._kwargs)
            if (self._target.__new__ is not object.__new__)
            else object.__new__(self._target)
        )
        made = self.instance.__init__(*self._args, **self._kwargs)
        if inspect.isawaitable(made):
            await made
        if hasattr(self.instance, "__serve_consume__"):
            await self.run(self.instance.__serve_consume__, self._threads.most)
        if hasattr(self.instance, "__serve_start__"):
            self.app = await self.instance.__serve_start__()

    def places(self) -> list[str]:
        """Return where plain functions are now, in their threads."""
        return self._threads.places()

    def resize(self, threads: int) -> None:
        """Run so many plain functions at a time from now on."""
        self._threads.resize(max(1, threads))

    def has(self, name: str) -> bool:
        """Return whether the user's class has such a method."""
        return inspect.isclass(self._target) and callable(getattr(self.instance, name, None))

    # -- calls ---------------------------------------------------------------------------------

    def method(self, name: str) -> tuple[Function, bool]:
        """Return what is called by this name, and whether on the loop (or in a thread)."""
        found = self._kinds.get(name)
        if found is None:
            found = self._kinds[name] = self._find(name)
        return found

    def _find(self, name: str) -> tuple[Function, bool]:
        if name.startswith("__grpc_"):
            from skate.serve._replica.grpc_calls import STREAM, GrpcCalls

            calls = GrpcCalls(self)
            return calls.stream if name == STREAM else calls.answer, True
        if not inspect.isclass(self._target):
            if name != "__call__":
                raise SkateServeError(
                    f"a function deployment has no method {name!r}: call handle.remote(...)"
                )
            function = self._target
        else:
            found = getattr(self.instance, name, None)
            if not callable(found):
                raise self._no_method(name)
            function = found
        return function, is_async(function)

    def _no_method(self, name: str) -> SkateServeError:
        public = [each for each in dir(self.instance) if not each.startswith("_")]
        methods = [each for each in public if callable(getattr(self.instance, each, None))]
        near = nearest_names(name, methods, 1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        return SkateServeError(
            f"method {name!r} of the deployment does not exist. Available methods: {methods}."
            f"{hint}"
        )

    async def call(
        self,
        name: str,
        args: Arguments,
        kwargs: NamedArguments,
        threads: UserCodeThreads | None = None,
    ) -> Any:
        """Call a method once and return its result; in other `threads` than those of requests."""
        function, on_loop = self.method(name)
        if on_loop:
            result = function(*args, **kwargs)
            if inspect.isawaitable(result):
                result = await result
        else:
            result = await (threads or self._threads).run(function, *args, **kwargs)
            if inspect.isawaitable(result):
                result = await result
        if inspect.isgenerator(result) or inspect.isasyncgen(result):
            raise TypeError(
                f"Method {name!r} returned a generator, which has many results: call it by a "
                "handle with `handle.options(stream=True)`"
            )
        return result

    async def run(self, function: Function, *args: object, **kwargs: object) -> Any:
        """Run a function of the user's where it belongs: a coroutine here, others in a thread."""
        if is_async(function):
            result = function(*args, **kwargs)
        else:
            result = await self._threads.run(function, *args, **kwargs)
        return await result if inspect.isawaitable(result) else result

    async def stream(
        self, name: str, args: Arguments, kwargs: NamedArguments
    ) -> AsyncIterator[Any]:
        """Call a generator method, and yield its items as they come."""
        function, on_loop = self.method(name)
        result = (
            function(*args, **kwargs) if on_loop else await self.run(function, *args, **kwargs)
        )
        if inspect.isawaitable(result):
            result = await result
        if inspect.isasyncgen(result) or hasattr(result, "__aiter__"):
            async for item in result:
                yield item
        elif inspect.isgenerator(result):
            async for item in self.in_steps(result):
                yield item
        else:
            raise TypeError(
                f"method {name!r} did not return a generator, for which "
                f"`handle.options(stream=True)` is, but {type(result).__name__}: use `yield`, or "
                "call it without stream=True"
            )

    async def in_steps(self, generator: Generator[object, Any, Any]) -> AsyncIterator[Any]:
        """Run a plain generator in a thread, one item at a time."""
        try:
            while (item := await self._threads.run(next, generator, _END)) is not _END:
                yield item
        finally:
            await self._threads.run(generator.close)

    async def end(self) -> None:
        """Handle no more tasks, unload models, and call the user's `__del__`, which may be a
        coroutine."""
        if hasattr(self.instance, "__serve_end_consuming__"):
            await self._end_consuming()
        await unload_all(self.instance)
        if self.app is not None:
            await self.instance.__serve_stop__()
        if inspect.isclass(self._target) and hasattr(self._target, "__del__"):
            ended = self.instance.__del__()
            if inspect.isawaitable(ended):
                await ended
        self._threads.end()

    async def _end_consuming(self) -> None:
        """Wait for tasks that have begun, not among requests, whose threads may all be busy."""
        try:
            await asyncio.to_thread(self.instance.__serve_end_consuming__)
        except Exception:
            logger.exception("the consumer of tasks of %s could not be stopped", self.name)


def is_async(function: Function) -> bool:
    """Return whether calling it returns at once, with something to await or to iterate."""
    called = getattr(function, "__call__", None)  # noqa: B004 - an object may be the function
    return any(
        inspect.iscoroutinefunction(each) or inspect.isasyncgenfunction(each)
        for each in (inspect.unwrap(function), called)
        if each is not None
    )
