"""Threads for plain functions, with little between the event loop and them.

An executor's futures, their locks and callbacks take longer than many functions that are served.
"""

from __future__ import annotations

import asyncio
import contextvars
import sys
import threading
import weakref
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

from skate._core.places import place_of_thread

_Job = tuple[asyncio.Future[Any], contextvars.Context, Callable[..., Any], Any, Any]


def limit_other_threads(most: int) -> None:
    """Have so many threads at most on this loop for what an application of Starlette or FastAPI
    runs in threads: anyio has 40, fewer than a replica may have requests."""
    anyio: Any = sys.modules.get("anyio.to_thread")  # who has not imported it runs nothing by it
    if anyio is not None:
        anyio.current_default_thread_limiter().total_tokens = most


class UserCodeThreads:
    """So many functions at a time; threads are started when all others are busy."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._loop = asyncio.get_running_loop()
        self._jobs: SimpleQueue[_Job | None] = SimpleQueue()
        self._started = 0
        self._unfinished = 0  # counted on the loop
        self._threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()

    async def run(self, function: Callable[..., object], *args: object, **kwargs: object) -> Any:
        """Return the result of the function, run in a thread and in this task's context."""
        future: asyncio.Future[Any] = self._loop.create_future()
        self._unfinished += 1
        if self._started < self._unfinished and self._started < self.most:
            self._start()
        self._jobs.put((future, contextvars.copy_context(), function, args, kwargs))
        return await future

    def _start(self) -> None:
        self._started += 1
        name = f"skate-serve-{self._started}"
        thread = threading.Thread(target=self._work, name=name, daemon=True)
        self._threads.add(thread)
        thread.start()

    def places(self) -> list[str]:
        """Return where in the user's code threads are now."""
        return sorted({place for one in list(self._threads) if (place := place_of_thread(one))})

    @property
    def are_busy(self) -> bool:
        """Whether a function runs or waits, also one that nobody waits for any more."""
        return self._unfinished > 0

    def resize(self, most: int) -> None:
        """Have so many threads at most; others end when they have nothing to do."""
        self.most = most
        for _ in range(self._started - most):
            self._started -= 1
            self._jobs.put(None)

    def end(self) -> None:
        """Have all threads end when they have nothing to do."""
        self.resize(0)

    def _work(self) -> None:
        while (job := self._jobs.get()) is not None:
            future, context, function, args, kwargs = job
            result: Any = None
            failure: BaseException | None = None
            try:
                result = context.run(function, *args, **kwargs)
            except BaseException as error:
                failure = error
            try:
                self._loop.call_soon_threadsafe(self._finish, future, result, failure)
            except RuntimeError:  # the loop is closed, and everyone who waited is gone
                return
            # Whatever these hold must not wait for the next job to be let go.
            del job, future, context, function, args, kwargs, result, failure

    def _finish(
        self, future: asyncio.Future[object], result: object, error: BaseException | None
    ) -> None:
        self._unfinished -= 1
        if future.done():  # its request was cancelled
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, (StopIteration, GeneratorExit)):
            # A future refuses the first; the second would be taken for the end of who awaits it.
            future.set_exception(RuntimeError(f"the function raised {error!r}"))
        else:
            future.set_exception(error)
