"""`concurrent.futures.Executor` on tasks.

    submit(fn, …) ──► a task at once ──► ExecutorCall, a future that asks for the value when wanted
    submit(fn, …) ──► pending ──► a task, when one of `max_workers` calls has ended

Calls go to the engine as they come, and its CPUs limit how many run. Nobody is told of their ends
unless somebody wants to know: `result()` gets the value as `skate.get` does, and only
`add_done_callback`, `wait` and `as_completed` ask the engine to call back. That is most of the
speed. Only where `max_workers` is less than the CPUs, the executor hands calls over by itself, one
for each that has ended.
"""

from __future__ import annotations

import atexit
import concurrent.futures
import functools
import inspect
import itertools
import sys
import threading
import time
import types
import uuid
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from typing import Any, TypeVar

import skate
from skate._core.argument_checks import mapping, seconds, whole_number, wrong_type
from skate._core.futures import when_done
from skate.exceptions import ObjectLostError
from skate.util._executor_calls import CallBook, CallCrashedError, ExecutorCall, begun_tasks
from skate.util._initializer import Initialized

T = TypeVar("T")

_LOOK_EVERY_CALLS = 1024  # how often calls that nobody asks about are looked through
_CACHED = (types.FunctionType, types.BuiltinFunctionType, functools.partial)

_executors: weakref.WeakSet[Executor] = weakref.WeakSet()
_abandoned: set[Any] = set()  # references of calls whose executors nobody has any more
_prepared: dict[str, Initialized] = {}  # in a worker: by executor, what its initializer has set


class Executor(concurrent.futures.Executor):
    """Run calls as tasks, by the interface of `concurrent.futures.ProcessPoolExecutor`.

    Functions and arguments may be lambdas, closures and whatever cloudpickle takes; arguments may
    be references, and large arrays go through shared memory. Futures work with
    `concurrent.futures.wait`, `as_completed` and `asyncio.wrap_future`. Exceptions are those of
    the call, with the remote traceback as their cause.

    Args:
        max_workers: How many calls run at a time; by default as many as skate has CPUs.
        initializer: A function that each process calls before its first call of this executor.
        initargs: The arguments of `initializer`.
        max_tasks_per_child: After so many calls of one function a process is replaced; by default
            never.
        options: Options of the tasks, as `{"num_gpus": 1}`; see `skate.remote`. A call whose
            process dies is repeated three times, unless `max_retries` says otherwise; with
            `{"max_retries": 0}` none is made twice, and none is sent before a worker is free.

    Raises:
        TypeError: If an argument has the wrong type.
        ValueError: If `max_workers` or `max_tasks_per_child` is below 1, or an option is unknown.

    Example:
        >>> from skate.util import Executor
        >>> with Executor() as executor:
        ...     list(executor.map(pow, [2, 3], [5, 2]))
        [32, 9]
    """

    def __init__(
        self,
        max_workers: int | None = None,
        *,
        initializer: Callable[..., object] | None = None,
        initargs: Iterable[object] = (),
        max_tasks_per_child: int | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        if initializer is not None and not callable(initializer):
            raise wrong_type("initializer", initializer, "None or a function")
        self._prepare = (uuid.uuid4().hex, initializer, tuple(initargs)) if initializer else None
        self._limit = None if max_workers is None else whole_number("max_workers", max_workers)
        self._options = dict(mapping("options", options))
        if max_tasks_per_child is not None:
            calls = whole_number("max_tasks_per_child", max_tasks_per_child)
            self._options["max_calls"] = calls
        cpus = skate.cluster_resources().get("CPU", 1)  # which also begins the session
        if self._limit is not None and self._limit >= cpus and "num_cpus" not in self._options:
            # The engine keeps to the limit if each call takes its share of the CPUs.
            self._options["num_cpus"] = int(cpus / self._limit * 10_000) / 10_000
            self._limit = None
        self._generic = self._remote(_call)
        self._remotes: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
        self._last: tuple[Any, Any] = (None, None)  # of these: most programs call one function
        self._lock = threading.Lock()
        self._closed = False
        self._book = CallBook(limited=self._limit is not None)
        self._handed_over = 0
        self._pending: deque[ExecutorCall] = deque()
        self._active = 0  # calls that were handed over and have not ended, where there is a limit
        _executors.add(self)
        weakref.finalize(self, _abandoned.update, self._book.running).atexit = False
        _forget_abandoned()
        atexit.unregister(_wait_for_all)
        atexit.register(_wait_for_all)  # anew, so that it comes before the end of the session

    # -- calls ---------------------------------------------------------------------------------

    def submit(
        self, fn: Callable[..., T], /, *args: object, **kwargs: object
    ) -> concurrent.futures.Future[T]:
        """Run `fn(*args, **kwargs)` in a worker, and return the future of its result.

        Args:
            fn: What to call. Its code is sent to each worker once: what it refers to is as it was
                at its first call.
            *args: Positional arguments; references are replaced by their values.
            **kwargs: Keyword arguments.

        Returns:
            A future. What cannot be sent, or does not fit the function, is the future's exception.

        Raises:
            RuntimeError: If the executor was shut down.

        Example:
            >>> with skate.util.Executor() as executor:
            ...     executor.submit(pow, 2, 5).result()
            32
        """
        if not callable(fn):
            raise wrong_type("fn", fn, "a function")
        call = ExecutorCall(self._book, fn, args, kwargs)
        with self._lock:
            if self._closed:
                raise RuntimeError("cannot schedule new futures after shutdown")
            if self._limit is not None:
                call.wait_for_a_worker()
                self._pending.append(call)
        if self._limit is None:
            self._hand_over(call)
        else:
            self._advance()
        return call

    def map(
        self,
        fn: Callable[..., T],
        *iterables: Iterable[object],
        timeout: float | None = None,
        chunksize: int = 1,
        buffersize: int | None = None,
    ) -> Iterator[T]:
        """Call `fn` on the items of `iterables`, as `map` does, and return the results in order.

        Args:
            fn: What to call, with one item of each iterable.
            *iterables: Where the arguments come from; the shortest decides.
            timeout: Seconds from this call on, after which a missing result is a TimeoutError.
            chunksize: How many calls go to a worker together.
            buffersize: How many chunks may be under way or waiting to be taken; by default all
                items are read, and sent, at once.

        Returns:
            An iterator over the results; an exception of a call is raised in its turn. Closing it
            cancels the calls that have not begun.

        Raises:
            TypeError: If `chunksize` or `buffersize` is not a whole number.
            ValueError: If one of them is below 1.

        Example:
            >>> with skate.util.Executor() as executor:
            ...     list(executor.map(len, ["a", "bc", "def"], chunksize=2))
            [1, 2, 3]
        """
        whole_number("chunksize", chunksize)
        if buffersize is not None:
            whole_number("buffersize", buffersize)
        patience = seconds("timeout", timeout)
        end = None if patience is None else time.monotonic() + patience
        chunks = _chunks(zip(*iterables, strict=False), chunksize)
        work = _each_of(fn)
        futures = deque(self.submit(work, chunk) for chunk in itertools.islice(chunks, buffersize))
        return self._results(work, futures, chunks if buffersize else iter(()), end)

    def _results(
        self,
        work: Callable[[list[Any]], list[T]],
        futures: deque[concurrent.futures.Future[list[T]]],
        chunks: Iterator[list[Any]],
        end: float | None,
    ) -> Iterator[T]:
        try:
            while futures:
                left = None if end is None else max(0.0, end - time.monotonic())
                results = futures[0].result(left)
                futures.popleft()
                futures.extend(self.submit(work, chunk) for chunk in itertools.islice(chunks, 1))
                results.reverse()
                while results:
                    yield results.pop()  # which nobody keeps but the one who gets it
        finally:
            for future in futures:
                future.cancel()

    # -- the end -------------------------------------------------------------------------------

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_val: BaseException | None,
        exc_tb: types.TracebackType | None,
    ) -> None:
        if exc_type is not None and issubclass(exc_type, KeyboardInterrupt):
            self._end_calls()
        else:
            self.shutdown()

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls, and wait for those that were made.

        Leaving `with Executor() as executor:` does it, and so does the end of the program. After
        Ctrl-C both end the calls instead.

        Args:
            wait: Whether to return only when all calls have ended.
            cancel_futures: Whether to cancel those that have not begun.
        """
        with self._lock:
            self._closed = True
            calls = [*self._pending]
        if cancel_futures:
            self._cancel([*calls, *self._callers()])
        if wait:
            concurrent.futures.wait(calls)
            _wait_for_tasks(self._book.running)
            self._book.running.clear()
            self._book.callbacks.end()

    def _end_calls(self) -> None:
        """Take no more calls, and end those that were made: who interrupts does not wait."""
        with self._lock:
            self._closed = True
            calls = [*self._pending]
        for call in calls:
            call.cancel()
        tasks = [*self._book.running]
        self._book.running.clear()
        if skate.is_initialized():
            for ref in tasks:
                skate.cancel(ref, force=True)

    def _callers(self) -> list[ExecutorCall]:
        """Return the futures of calls that the engine has, as far as somebody keeps them."""
        return [call for ref in [*self._book.running.values()] if (call := ref()) is not None]

    def _cancel(self, calls: list[ExecutorCall]) -> None:
        begun = begun_tasks()
        for call in calls:
            call.cancel_unless(begun)

    # -- from a call to a task -----------------------------------------------------------------

    def _hand_over(self, call: ExecutorCall) -> None:
        """Make a task of the call, or its error where that cannot be done."""
        fn, args, kwargs = call.work
        call.work = None
        try:
            remote = self._remote_of(fn)
            if remote is not None:
                call.ref = remote.remote(*args, **kwargs)
            else:
                call.ref = self._generic.remote(fn, args, kwargs)
        except Exception as error:
            call.finish(error=error)
            return
        self._book.running[call.ref] = weakref.ref(call)
        self._handed_over += 1
        if self._handed_over % _LOOK_EVERY_CALLS == 0:
            self._forget_ended()

    def _forget_ended(self) -> None:
        refs = [*self._book.running]
        for ref in skate.wait(refs, num_returns=len(refs), timeout=0, fetch_local=False)[0]:
            self._book.running.pop(ref, None)

    def _remote_of(self, fn: object) -> Any:
        """Return `fn` as a remote function, made once; None for what `_call` has to call."""
        if fn is self._last[0]:
            return self._last[1]
        if not isinstance(fn, _CACHED):
            return None
        remote = self._remotes.get(fn)
        if remote is None:
            inner: Any = fn
            while isinstance(inner, functools.partial):
                inner = inner.func
            if inspect.isgeneratorfunction(inner) or inspect.iscoroutinefunction(inner):
                return None
            if not hasattr(inner, "__name__"):
                return None
            remote = self._remotes[fn] = self._remote(fn)
        self._last = fn, remote
        return remote

    def _remote(self, fn: Any) -> Any:
        if self._prepare is not None:
            fn = _with_initializer(fn, *self._prepare)
        return skate.remote(**self._options)(fn) if self._options else skate.remote(fn)

    def _advance(self) -> None:
        """Hand over as many pending calls as the limit allows."""
        while True:
            with self._lock:
                if not self._pending or self._active >= (self._limit or 0):
                    return
                call = self._pending.popleft()
                if not call.set_running_or_notify_cancel():
                    continue
                self._active += 1
            if not skate.is_initialized():
                call.finish(error=RuntimeError("skate was shut down before the call began"))
                self._one_less()
                continue
            self._hand_over(call)
            if call.ref is None:
                self._one_less()
            else:
                tell = functools.partial(self._book.callbacks.later, self._ended, call)
                when_done(call.ref, tell)

    def _ended(self, call: ExecutorCall) -> None:
        self._one_less()
        self._advance()
        call.settle()

    def _one_less(self) -> None:
        with self._lock:
            self._active -= 1


# -- in workers ---------------------------------------------------------------------------------


def _call(fn: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    result = fn(*args, **kwargs)
    if inspect.isgenerator(result):
        raise TypeError(f"{result!r} cannot be sent: return a list of what it yields")
    return result


def _each_of(fn: Callable[..., T]) -> Callable[[list[Any]], list[T]]:
    """Return a function of several calls, which bears the name that tasks of `fn` have."""

    def each(chunk: list[Any]) -> list[T]:
        return [fn(*args) for args in chunk]

    named: Any = fn
    while isinstance(named, functools.partial):
        named = named.func
    each.__name__ = getattr(named, "__name__", type(named).__name__)
    return each


def _with_initializer(
    fn: Callable[..., object], token: str, initializer: Callable[..., object], initargs: object
) -> Callable[..., Any]:
    @functools.wraps(fn)
    def prepared(*args: object, **kwargs: object) -> Any:
        _initialized(token, initializer, initargs).lend_to(fn, *args)
        return fn(*args, **kwargs)

    return prepared


def _initialized(token: str, initializer: Callable[..., object], initargs: Any) -> Initialized:
    if token not in _prepared:
        try:
            _prepared[token] = Initialized(initializer, initargs)
        except Exception as error:
            raise BrokenProcessPool(f"the initializer failed: {error!r}") from error
    return _prepared[token]


# -- parts --------------------------------------------------------------------------------------


def _chunks(calls: Iterator[object], size: int) -> Iterator[list[Any]]:
    while chunk := list(itertools.islice(calls, size)):
        yield chunk


def _wait_for_all() -> None:
    """Wait at the end of the program for all calls, also those that nobody asks about."""
    if _was_interrupted():
        return  # the end of the session ends them
    for executor in list(_executors):
        executor.shutdown()
    _wait_for_tasks(_abandoned)


def _was_interrupted() -> bool:
    """Return whether an interrupt ends this program. In a shell it has only ended a statement."""
    unhandled = getattr(sys, "last_type", None)
    is_shell = hasattr(sys, "ps1")
    return not is_shell and unhandled is not None and issubclass(unhandled, KeyboardInterrupt)


def _wait_for_tasks(calls: Iterable[Any]) -> None:
    refs = [*calls]
    if refs and skate.is_initialized():
        with suppress(ObjectLostError):  # of a session that was shut down, as its calls were
            skate.wait(refs, num_returns=len(refs))


def _forget_abandoned() -> None:
    refs = [*_abandoned]
    try:
        ended = skate.wait(refs, num_returns=len(refs), timeout=0)[0] if refs else []
    except ObjectLostError:
        ended = refs
    _abandoned.difference_update(ended)


__all__ = ["CallCrashedError", "Executor"]
