"""Actors that run several calls at a time, each in a thread."""

from __future__ import annotations

import queue
import threading
import time
from typing import TYPE_CHECKING

from skate.engine.local.execution import Work, _running

if TYPE_CHECKING:
    from skate.engine.local.execution import Execution

_DEFAULT = ""


def run_threads(execution: Execution, creation: Work) -> int:
    """Construct the actor, then pass calls to the threads of their group; the exit code."""
    start = time.perf_counter()
    _perform(execution, creation, start)
    execution.engine.reactor.flush()  # so that the hub knows it before a call begins
    settings = creation[0][6]
    groups = {_DEFAULT: settings["concurrency"], **settings["groups"]}
    queues: dict[str, queue.SimpleQueue[Work]] = {}
    for name, size in groups.items():
        queues[name] = queue.SimpleQueue()
        for number in range(size):
            threading.Thread(
                target=_serve,
                args=(execution, queues[name]),
                name=f"skate-{name or 'default'}-{number}",
                daemon=True,
            ).start()

    def deliver(work: Work) -> None:
        group = execution.group_of(work, queues)
        if group is not None:
            queues[group].put(work)

    execution.cancel_running = lambda id: None  # a thread cannot be interrupted
    with execution.engine.lock:
        execution.deliver = deliver
        while execution.queue:
            deliver(execution.queue.popleft())
    while not execution.exiting:
        execution.arrived.done = False
        execution.engine.reactor.run_until(execution.arrived)
    return 0


def _serve(execution: Execution, calls: queue.SimpleQueue[Work]) -> None:
    while True:
        work = calls.get()
        _perform(execution, work, time.perf_counter())
        del work
        execution.engine.reactor.flush()
        if execution.engine.dropped:
            execution.engine.collect()
            execution.engine.reactor.flush()


def _perform(execution: Execution, work: Work, start: float) -> bool:
    if work[0][1] in execution.cancelled:
        execution.answers.cancelled(work)
        return False
    try:
        call = execution.begin(work)
    except SystemExit as exit:  # while unpickling the arguments
        execution.stop(work, exit)
        return False
    if call is None:
        return False
    function, args, kwargs, running = call
    token = _running.set(running)
    try:
        value = function(*args, **kwargs)
        del args, kwargs, call
        execution.answers.give(work, value, start)
        return True
    except SystemExit as exit:
        execution.stop(work, exit)
    except BaseException as error:
        execution.answers.fail(work, error, start)
    finally:
        _running.reset(token)
    return False
