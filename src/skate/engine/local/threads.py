"""Actors that run several calls at a time, each in a thread."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from skate.engine.local.messages import Work, WorkSettings
from skate.engine.local.preparation import running_now

if TYPE_CHECKING:
    from skate.engine.local.execution import Execution

_DEFAULT = ""


def run_threads(execution: Execution, creation: Work, settings: WorkSettings) -> None:
    """Construct the actor, then pass calls to the threads of their group until it ends."""
    start = time.perf_counter()
    _perform(execution, creation, start)
    execution.engine.reactor.flush()  # so that the hub knows it before a call begins
    sizes = {_DEFAULT: settings["max_concurrency"], **settings["concurrency_groups"]}
    groups = {name: _Group(execution, name, size) for name, size in sizes.items()}

    def deliver(work: Work) -> None:
        group = execution.group_of(work, groups)
        if group is not None:
            groups[group].deliver(work)

    execution.cancel_running = execution.end_wait_of  # a thread cannot be interrupted
    with execution.engine.lock:
        execution.deliver = deliver
        while execution.queue:
            deliver(execution.queue.popleft())
    if not execution.ended.done:
        execution.engine.reactor.run_until(execution.ended)


class _Group:
    """Run the calls of a concurrency group in up to `size` threads, started as they are needed."""

    def __init__(self, execution: Execution, name: str, size: int) -> None:
        self._execution = execution
        self._name = name
        self._size = size
        self._started = 0
        self._calls: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)  # threads that wait for a call

    def deliver(self, work: Work) -> None:
        """Pass a call to a thread. The engine's lock is held."""
        self._calls.put(work)
        if self._started < self._size and not self._idle.acquire(blocking=False):
            self._start_thread()

    def _start_thread(self) -> None:
        name = f"skate-{self._name or 'default'}-{self._started}"
        thread = threading.Thread(target=self._serve, name=name, daemon=True)
        try:
            thread.start()
        except RuntimeError as error:  # the system has no more for this process
            if not self._started:
                self._execution.answers.fail(self._calls.get(), error, time.perf_counter())
            return  # else those that there are run it, later
        self._started += 1

    def _serve(self) -> None:
        execution = self._execution
        engine = execution.engine
        while True:
            try:
                work = self._calls.get_nowait()
            except queue.Empty:
                self._idle.release()
                work = self._calls.get()
            if execution.exiting:
                return  # what has not begun is for the hub to tell
            _perform(execution, work, time.perf_counter())
            del work
            engine.reactor.flush()
            if engine.dropped:
                engine.collect()
                engine.reactor.flush()


def _perform(execution: Execution, work: Work, start: float) -> None:
    execution.begun.add(work.id)
    try:
        _run(execution, work, start)
    finally:
        execution.call_ended(work.id)


def _run(execution: Execution, work: Work, start: float) -> None:
    if work.id in execution.cancelled:
        execution.answers.cancelled(work)
        return
    try:
        call = execution.begin(work)
    except SystemExit as exit:  # while unpickling the arguments
        execution.ends_actor(work, exit)
        return
    if call is None:
        return
    function, args, kwargs, running = call
    token = running_now.set(running)
    try:
        value = function(*args, **kwargs)
        del args, kwargs, call
        execution.answers.give(work, value, start)
    except BaseException as error:
        if not execution.ends_actor(work, error):
            execution.answers.fail(work, error, start)
    finally:
        running_now.reset(token)
