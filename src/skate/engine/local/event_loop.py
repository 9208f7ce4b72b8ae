"""Actors with async methods: calls are coroutines on an event loop.

    main thread   the loop of calls without a group; reads the reactor
    a thread per  a loop of its own, so that what blocks one group
    group         leaves the others alone

The main loop polls the reactor's descriptor itself, so that messages are read on the loop's own
thread and `await ref` needs no hand-over.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from skate.engine.local.execution import Work, _running

if TYPE_CHECKING:
    from skate.engine.local.execution import Execution

_DEFAULT = ""
_PATIENCE = 1.0  # seconds for what runs in groups, when the actor ends


def run_event_loop(execution: Execution, creation: Work) -> int:
    """Construct the actor on a new event loop, then run its calls there; the exit code."""
    return asyncio.run(_Actor(execution, creation).run())


class _Actor:
    def __init__(self, execution: Execution, creation: Work) -> None:
        self._execution = execution
        self._creation = creation
        self._lanes: dict[str, _Lane] = {}

    async def run(self) -> int:
        execution = self._execution
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        settings = self._creation[0][6]
        main = _Lane(execution, self._loop, settings["concurrency"], self._stop)
        self._lanes = {_DEFAULT: main}
        execution.cancel_running = self._cancel
        execution.on_exit = self._stop
        await main.perform(self._creation)
        execution.engine.reactor.flush()  # so that the hub knows it before a call begins
        groups = {name: self._group(name, size) for name, size in settings["groups"].items()}
        self._lanes.update(groups)
        with execution.engine.lock:
            execution.deliver = self._deliver
            waiting = list(execution.queue)
            execution.queue.clear()
            for work in waiting:
                self._deliver(work)
        self._loop.add_reader(execution.engine.reactor.fileno(), self._read)
        self._read()
        await self._stopped.wait()
        for group in groups.values():
            group.end()
        return 0

    def _group(self, name: str, size: int) -> _Lane:
        lane = _Lane(self._execution, asyncio.new_event_loop(), size, self._stop)
        lane.run_in_thread(f"skate-{name}")
        return lane

    def _stop(self) -> None:
        """On any thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    def _read(self) -> None:
        self._execution.engine.reactor.help()
        if self._execution.exiting:
            self._stopped.set()

    def _deliver(self, work: Work) -> None:
        """Under the engine's lock, on whichever thread reads."""
        group = self._execution.group_of(work, self._lanes)
        if group is None:
            self._loop.call_soon_threadsafe(self._lanes[_DEFAULT].plan_flush)
        else:
            self._lanes[group].deliver(work)

    def _cancel(self, id: int) -> None:
        for lane in self._lanes.values():
            lane.cancel(id)


class _Lane:
    """The calls of one group, so many at a time."""

    def __init__(
        self,
        execution: Execution,
        loop: asyncio.AbstractEventLoop,
        size: int,
        stop: Callable[[], None],
    ) -> None:
        self._execution = execution
        self._loop = loop
        self._limit = asyncio.Semaphore(size)
        self._stop = stop
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._flush_planned = False
        self._thread: threading.Thread | None = None

    def run_in_thread(self, name: str) -> None:
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self._loop.run_forever()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))

    def end(self) -> None:
        """Cancel what runs; what cannot be cancelled ends with the process."""
        self._loop.call_soon_threadsafe(self._loop.stop)
        if self._thread is not None:
            self._thread.join(_PATIENCE)

    def deliver(self, work: Work) -> None:
        if _running_loop() is self._loop:
            self._start(work)
        else:
            self._loop.call_soon_threadsafe(self._start, work)

    def _start(self, work: Work) -> None:
        id = work[0][1]
        task = self._loop.create_task(self._limited(work))
        self._tasks[id] = task
        task.add_done_callback(lambda _: self._tasks.pop(id, None))

    def cancel(self, id: int) -> None:
        task = self._tasks.get(id)
        if task is not None:
            self._loop.call_soon_threadsafe(task.cancel)

    async def _limited(self, work: Work) -> None:
        try:
            async with self._limit:
                await self.perform(work)
        except asyncio.CancelledError:
            if not self._execution.exiting:  # then the hub tells how the actor ended
                self._execution.answers.cancelled(work)
                self.plan_flush()

    async def perform(self, work: Work) -> None:
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
                self._stop()
            except BaseException as error:
                execution.answers.fail(work, error, start)
        self.plan_flush()

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

    def plan_flush(self) -> None:
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


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None
