"""The future of one call of an executor, which asks for its value when somebody wants it."""

from __future__ import annotations

import concurrent.futures
import functools
import queue
import threading
import weakref
from collections.abc import Callable
from concurrent.futures._base import FINISHED, PENDING, RUNNING
from concurrent.futures.process import BrokenProcessPool
from typing import Any

import skate
from skate._core.errors import without_own_frames
from skate._core.futures import value_now, when_done
from skate.engine import current_engine
from skate.exceptions import GetTimeoutError, TaskError, WorkerCrashedError

_first_use = threading.Lock()  # of what a future makes when it is needed


class CallCrashedError(WorkerCrashedError, BrokenProcessPool):
    """The process of a call died: a `WorkerCrashedError` that `except BrokenProcessPool` catches.

    Only the calls that the process had are lost; unlike a pool's, the executor goes on.

    Args:
        message: What happened, as the error's text.
        pid: The id of the process that died.
        exitcode: How it ended; minus the signal's number if one ended it.
    """


class CallBook:
    """What an executor and the futures of its calls know of each other.

    Args:
        limited: Whether the executor hands calls over one by one, and tells their ends itself.
    """

    def __init__(self, limited: bool) -> None:
        self.limited = limited
        # The futures of calls that are not known to have ended, by their references.
        self.running: dict[Any, weakref.ref[ExecutorCall]] = {}
        self.callbacks = Callbacks()


class ExecutorCall(concurrent.futures.Future[Any]):
    """The future of one call.

    Its condition, which every user of a future asks for who waits or wants to be told, is made
    when that happens; only then the engine is asked to tell the end of the task.
    """

    ref: Any = None
    _made_condition: threading.Condition | None = None
    _state = RUNNING
    _result: Any = None
    _exception: BaseException | None = None

    def __init__(self, book: CallBook, fn: object, args: object, kwargs: object) -> None:
        # Not super().__init__: it makes the condition, and all that goes with it.
        self._book = book
        self.work: Any = (fn, args, kwargs)

    def wait_for_a_worker(self) -> None:
        """Be pending until the executor makes a task of it."""
        self._state = PENDING

    @property
    def _condition(self) -> threading.Condition:  # type: ignore[override]
        return self._made_condition or self._make_condition()

    def _make_condition(self) -> threading.Condition:
        with _first_use:
            if self._made_condition is not None:
                return self._made_condition
            self._waiters: list[Any] = []
            self._done_callbacks: list[Any] = []
            self._made_condition = threading.Condition()
            asks = self._state == RUNNING and self.ref is not None
        if asks and not self._book.limited:
            when_done(self.ref, self.settle)
        return self._made_condition

    # -- what became of it ---------------------------------------------------------------------

    def result(self, timeout: float | None = None) -> Any:
        """Return the result of the call, or raise its exception."""
        if self._made_condition is None:
            if self._state == RUNNING:
                self._fetch(timeout)
            if self._state == FINISHED and self._exception is None:
                return self._result
        try:
            # Not super().result(): older Pythons take an exception that is false for none.
            error = self.exception(timeout)
        except Exception as early:
            raise without_own_frames(early)
        if error is not None:
            raise without_own_frames(error)
        return self._result

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """Return the exception of the call, or None."""
        if self._made_condition is None and self._state == RUNNING:
            self._fetch(timeout)
        return super().exception(timeout)

    def running(self) -> bool:
        """Return whether the call has begun, and not ended."""
        return super().running() and not self.done() and _has_begun(self.ref)

    def done(self) -> bool:
        """Return whether the call has ended, or was cancelled."""
        if self._made_condition is None and self._state == RUNNING and self.ref is not None:
            return bool(skate.wait([self.ref], timeout=0, fetch_local=False)[0])
        return super().done()

    def cancel(self) -> bool:
        """Cancel the call if it has not begun; whether it is cancelled."""
        return self.cancel_unless(None)

    def cancel_unless(self, begun: set[str] | None) -> bool:
        """Cancel the call, unless it is among those that have begun (None: look)."""
        if self._state == PENDING or self.done():
            return super().cancel()
        if self._book.limited or self.ref is None:
            return False  # it was handed over because a worker is free
        if _has_begun(self.ref) if begun is None else self.ref.task_id().hex() in begun:
            return False
        ref = self.ref
        with self._condition:
            if self._state != RUNNING:
                return super().cancel()
            self._state = PENDING
            super().cancel()
            self.set_running_or_notify_cancel()
        skate.cancel(ref)
        return True

    # -- the end of the task -------------------------------------------------------------------

    def _fetch(self, timeout: float | None) -> None:
        """Wait for the task as `skate.get` does, and keep what came of it."""
        ref = self.ref
        if ref is None:
            return
        try:
            value = skate.get(ref, timeout=timeout)
        except Exception as error:
            if isinstance(error, GetTimeoutError) and not isinstance(error, TaskError):
                raise concurrent.futures.TimeoutError(str(error)) from None
            self.finish(error=without_own_frames(error))
        else:
            self.finish(value)

    def settle(self) -> None:
        """Keep what came of the task, which has ended."""
        ref = self.ref
        if ref is None:
            return
        try:
            value = value_now(ref)
        except Exception as error:
            self.finish(error=error)
        else:
            self.finish(value)

    def finish(self, value: object = None, error: BaseException | None = None) -> None:
        """Set the outcome, unless there is one; then tell those who wait."""
        with _first_use:
            if self._made_condition is None:
                if self._state == RUNNING:
                    self._result, self._exception = value, _original(error)
                    self._state = FINISHED
                self._forget()
                return
        with self._condition:
            if self._state != RUNNING:
                return
            self._forget()
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(_original(error))

    def _forget(self) -> None:
        if self.ref is not None:
            self._book.running.pop(self.ref, None)

    def _invoke_callbacks(self) -> None:
        # Not on this thread, which may be the engine's: callbacks are allowed to block.
        for callback in self._done_callbacks:
            self._book.callbacks.later(callback, self)


class Callbacks:
    """Functions of the user to be called, one after the other, on a thread of their own."""

    def __init__(self) -> None:
        self._calls: queue.SimpleQueue[tuple[Any, Any] | None] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def later(self, function: Callable[[Any], object], argument: Any) -> None:
        """Call `function(argument)` soon."""
        with self._lock:
            self._calls.put((function, argument))
            if self._thread is None:
                run = functools.partial(_run_callbacks, self._calls)
                self._thread = threading.Thread(target=run, name="skate-executor", daemon=True)
                self._thread.start()
                weakref.finalize(self, self._calls.put, None)

    def end(self) -> None:
        """Call what is left, and end the thread."""
        with self._lock:
            thread, self._thread = self._thread, None
            if thread is not None:
                self._calls.put(None)
        if thread is not None and thread is not threading.current_thread():
            thread.join()


def _run_callbacks(calls: queue.SimpleQueue[tuple[Any, Any] | None]) -> None:
    while (item := calls.get()) is not None:
        function, argument = item
        try:
            function(argument)
        except Exception:
            import logging

            logging.getLogger(__name__).exception("exception calling callback for %r", argument)
        del item, function, argument


def _original(error: BaseException | None) -> BaseException | None:
    """Return the call's own exception, whose cause shows where it happened."""
    if isinstance(error, TaskError) and isinstance(error.cause, BaseException):
        original: BaseException = error.cause
        original.__cause__ = error
        return original
    if isinstance(error, WorkerCrashedError):
        crashed = CallCrashedError(str(error))
        crashed.__cause__ = error
        return crashed
    return error


def begun_tasks() -> set[str]:
    """Return the ids of the tasks that have begun, or ended."""
    tasks = current_engine().state("tasks")
    return {task["task_id"] for task in tasks if not str(task["state"]).startswith("PENDING")}


def _has_begun(ref: Any) -> bool:
    return ref is None or not skate.is_initialized() or current_engine().has_begun(ref)
