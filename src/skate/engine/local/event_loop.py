"""Actors with async methods: calls are coroutines on an event loop.

    main thread   the loop of calls without a group; reads the reactor
    a thread per  a loop of its own, so that what blocks one group
    group         leaves the others alone

The main loop polls the reactor's descriptor itself, so that messages are read on the loop's own
thread and `await ref` needs no hand-over.
"""

from __future__ import annotations

import asyncio
import contextvars
import inspect
import threading
import time
from collections import OrderedDict
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any

from skate.engine.local.messages import Work, WorkSettings
from skate.engine.local.preparation import running_now

if TYPE_CHECKING:
    from skate.engine.local.execution import Execution

_DEFAULT = ""
_END_SECONDS = 1.0  # for what still runs when the actor ends
_TURN_SECONDS = 0.002  # that a stream may take from the others before it lets them go on


def run_event_loop(execution: Execution, creation: Work, settings: WorkSettings) -> None:
    """Construct the actor on a new event loop, then run its calls there until it ends."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    actor = _Actor(execution, creation, settings)
    try:
        try:
            loop.run_until_complete(actor.run())
        except SystemExit as exit:  # in a task of the user's own
            execution.leave(exit, execution.actor.label)
            with suppress(SystemExit):
                loop.run_until_complete(actor.until_stopped())
        with suppress(SystemExit):  # of those that were cancelled
            loop.run_until_complete(actor.wind_up())
    finally:
        execution.on_exit = lambda: None
        loop.close()


class _Actor:
    def __init__(self, execution: Execution, creation: Work, settings: WorkSettings) -> None:
        self._execution = execution
        self._creation = creation
        self._settings = settings
        self._lanes: dict[str, _Lane] = {}

    async def run(self) -> None:
        execution = self._execution
        self._loop = asyncio.get_running_loop()
        self._stopped = asyncio.Event()
        main = _Lane(execution, self._loop, self._settings["max_concurrency"])
        self._lanes = {_DEFAULT: main}
        execution.cancel_running = self._cancel
        execution.on_exit = self._stop
        await main.perform(self._creation)
        main.context = contextvars.copy_context()
        execution.engine.reactor.flush()  # so that the hub knows it before a call begins
        for name, size in self._settings["concurrency_groups"].items():
            self._lanes[name] = self._group(name, size)
        with execution.engine.lock:
            execution.deliver = self._deliver
            waiting = list(execution.queue)
            execution.queue.clear()
            for work in waiting:
                self._deliver(work)
        self._loop.add_reader(execution.engine.reactor.fileno(), self._read)
        self._read()
        await self.until_stopped()

    async def until_stopped(self) -> None:
        """Wait until nothing is left to do for the actor."""
        if not self._execution.ended.done:
            await self._stopped.wait()

    async def wind_up(self) -> None:
        """Cancel what runs. What does not let itself be cancelled ends with the process."""
        for lane in self._lanes.values():
            lane.end()
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_END_SECONDS)

    def _group(self, name: str, size: int) -> _Lane:
        lane = _Lane(self._execution, asyncio.new_event_loop(), size)
        lane.run_in_thread(f"skate-{name}")
        return lane

    def _stop(self) -> None:
        """End the loop. On any thread."""
        self._loop.call_soon_threadsafe(self._stopped.set)

    def _read(self) -> None:
        self._execution.engine.reactor.help()
        if self._execution.ended.done:
            self._stopped.set()

    def _deliver(self, work: Work) -> None:
        """Hand work to its lane, under the engine's lock, on whichever thread reads."""
        group = self._execution.group_of(work, self._lanes)
        if group is None:
            self._loop.call_soon_threadsafe(self._lanes[_DEFAULT].plan_flush)
        else:
            self._lanes[group].deliver(work)

    def _cancel(self, id: int) -> None:
        for lane in self._lanes.values():
            lane.cancel(id)
        self._execution.end_wait_of(id)  # of a method that blocks its loop


class _Lane:
    """The calls of one group, so many at a time."""

    def __init__(self, execution: Execution, loop: asyncio.AbstractEventLoop, size: int) -> None:
        self._execution = execution
        self._loop = loop
        self._free = size
        self._tasks: dict[int, asyncio.Task[None]] = {}
        # For a place, in their order; the first of many is slow to find in a plain dictionary.
        self._waiting: OrderedDict[int, Work] = OrderedDict()
        self._flush_planned = False
        self._thread: threading.Thread | None = None
        self.context = contextvars.copy_context()  # in which calls begin, whoever reads them

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
        """Begin nothing more, and cancel what runs in a thread of its own."""
        self._waiting.clear()  # or they would have the places of those that are cancelled
        if self._thread is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join(_END_SECONDS)

    def deliver(self, work: Work) -> None:
        if _running_loop() is self._loop:
            self._start(work)
        else:
            self._loop.call_soon_threadsafe(self._start, work, context=self.context)

    def _start(self, work: Work) -> None:
        id = work.id
        if id in self._execution.cancelled:  # on the way to this loop
            self._execution.answers.cancelled(work)
            self.plan_flush()
            return
        if self._free:
            self._free -= 1
            self._begin(work)
        else:
            self._waiting[id] = work

    def _begin(self, work: Work) -> None:
        id = work.id
        task = self._loop.create_task(self._tracked(work))
        self._tasks[id] = task
        task.add_done_callback(lambda task: self._ended(id, task))

    def _ended(self, id: int, task: asyncio.Task[None]) -> None:
        """Give the place to whoever waits, after those have gone on that the call has woken."""
        if self._tasks.get(id) is task:  # else the call was tried again, and has begun
            del self._tasks[id]
        if self._waiting:
            self._begin(self._waiting.popitem(last=False)[1])
        else:
            self._free += 1

    def cancel(self, id: int) -> None:
        with suppress(RuntimeError):  # the loop has ended, and its calls with it
            self._loop.call_soon_threadsafe(self._cancel, id)

    def _cancel(self, id: int) -> None:
        work = self._waiting.pop(id, None)
        task = self._tasks.get(id)
        if work is not None:
            self._execution.answers.cancelled(work)
            self.plan_flush()
        elif task is not None:
            task.cancel()

    async def _tracked(self, work: Work) -> None:
        try:
            if not self._execution.exiting:  # else it is for the hub to tell
                await self.perform(work)
        except asyncio.CancelledError:
            if not self._execution.ended.done:  # then the hub tells how the actor ended
                self._execution.answers.cancelled(work)
                self.plan_flush()

    async def perform(self, work: Work) -> None:
        self._execution.begun.add(work.id)
        try:
            await self._run_call(work)
        finally:
            self._execution.call_ended(work.id)

    async def _run_call(self, work: Work) -> None:
        execution = self._execution
        start = time.perf_counter()
        try:
            call = execution.begin(work)
        except SystemExit as exit:  # while unpickling the arguments
            execution.ends_actor(work, exit)
            return
        if call is not None:
            function, args, kwargs, running = call
            running_now.set(running)
            try:
                value = function(*args, **kwargs)
                if inspect.isawaitable(value):
                    value = await value
                if inspect.isasyncgen(value):
                    await self._stream(work, value, start)
                else:
                    execution.answers.give(work, value, start)
            except BaseException as error:
                if not execution.ends_actor(work, error):
                    if work.id in execution.cancelled:  # whatever it has made of that
                        execution.answers.interrupted(work, start, error.__traceback__)
                    elif not isinstance(error, asyncio.CancelledError):
                        execution.answers.fail(work, error, start)
                    else:
                        raise
        self.plan_flush()

    async def _stream(self, work: Work, items: Any, start: float) -> None:
        answers = self._execution.answers
        id = work.id
        limit = work.settings.get("backpressure") if work.settings else None
        index = 0
        turn = time.perf_counter()
        async with aclosing(items):
            async for item in items:
                answers.item(id, index, item)
                index += 1
                while limit and answers.wanted(id) and answers.behind(id, index) >= limit:
                    await answers.credit(id)
                if time.perf_counter() - turn > _TURN_SECONDS:  # the items may wait for nothing
                    await asyncio.sleep(0)
                    turn = time.perf_counter()
                if not answers.wanted(id):
                    break
        answers.finish_stream(work, start)

    def plan_flush(self) -> None:
        """Plan to send answers, those of one round of the loop together."""
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
