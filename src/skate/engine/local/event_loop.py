"""Actors with async methods: calls are coroutines on one event loop.

The loop polls the reactor's descriptor itself, so that messages are read on the loop's own thread
and `await ref` needs no hand-over.
"""

from __future__ import annotations

import asyncio
import inspect
import time
from typing import TYPE_CHECKING, Any

from skate.engine.local.execution import Work, _running

if TYPE_CHECKING:
    from skate.engine.local.execution import Execution

_DEFAULT = ""


def run_event_loop(execution: Execution, creation: Work) -> int:
    """Construct the actor on a new event loop, then run its calls there; the exit code."""
    return asyncio.run(_Loop(execution, creation).run())


class _Loop:
    def __init__(self, execution: Execution, creation: Work) -> None:
        self._execution = execution
        self._creation = creation
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._flush_planned = False

    async def run(self) -> int:
        execution = self._execution
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        settings = self._creation[0][6]
        sizes = {_DEFAULT: settings["concurrency"], **settings["groups"]}
        self._limits = {name: asyncio.Semaphore(size) for name, size in sizes.items()}
        execution.cancel_running = self._cancel
        execution.on_exit = lambda: self._loop.call_soon_threadsafe(self._stopped.set)
        await self._perform(self._creation)
        with execution.engine.lock:
            execution.deliver = self._deliver
            waiting = list(execution.queue)
            execution.queue.clear()
        for work in waiting:
            self._start(work)
        self._loop.add_reader(execution.engine.reactor.fileno(), self._read)
        self._read()
        await self._stopped.wait()
        return 0

    def _read(self) -> None:
        self._execution.engine.reactor.help()
        if self._execution.exiting:
            self._stopped.set()

    def _deliver(self, work: Work) -> None:
        """Under the engine's lock, on whichever thread reads."""
        if self._on_loop():
            self._start(work)
        else:
            self._loop.call_soon_threadsafe(self._start, work)

    def _on_loop(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    def _start(self, work: Work) -> None:
        id = work[0][1]
        task = self._loop.create_task(self._limited(work))
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._tasks.pop(id, None))

    def _cancel(self, id: int) -> None:
        task = self._tasks.get(id)
        if task is not None:
            self._loop.call_soon_threadsafe(task.cancel)

    async def _limited(self, work: Work) -> None:
        group = self._execution.group_of(work, self._limits)
        if group is None:
            self._plan_flush()
            return
        try:
            async with self._limits[group]:
                await self._perform(work)
        except asyncio.CancelledError:
            if not self._execution.exiting:  # then the hub tells how the actor ended
                self._execution.answers.cancelled(work)
                self._plan_flush()

    async def _perform(self, work: Work) -> None:
        execution = self._execution
        start = time.perf_counter()
        call = execution.begin(work)
        if call is not None:
            function, args, kwargs, running = call
            _running.set(running)
            try:
                value = function(*args, **kwargs)
                if inspect.isawaitable(value):
                    value = await value
                if inspect.isasyncgen(value):
                    await self._stream(work, value, start)
                else:
                    execution.answers.give(work, value, start)
            except asyncio.CancelledError:
                raise
            except SystemExit as exit:
                execution.stop(work, exit)
                self._stopped.set()
            except BaseException as error:
                execution.answers.fail(work, error, start)
        self._plan_flush()

    async def _stream(self, work: Work, items: Any, start: float) -> None:
        answers = self._execution.answers
        message = work[0]
        id, limit = message[1], message[7].get("backpressure")
        index = 0
        async for item in items:
            answers.item(id, index, item)
            index += 1
            while limit and answers.wanted(id) and answers.behind(id, index) >= limit:
                await answers.credit(id)
            if not answers.wanted(id):
                await items.aclose()
                break
        answers.finish_stream(work, start)

    def _plan_flush(self) -> None:
        """Answers of one round of the loop go together."""
        if not self._flush_planned:
            self._flush_planned = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_planned = False
        engine = self._execution.engine
        if engine.dropped:
            engine.collect()
        engine.reactor.flush()
