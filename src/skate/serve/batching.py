"""Many calls, one execution: `@serve.batch`.

    call, call, call ──► Queue ──► max_batch_size calls, or batch_wait_timeout_s after the first
                                        │
                                        ▼
                              function([x, x, x]) ──► one result for each call

There is a queue per instance and event loop, made with the first call. No task waits in the
background: a call, a timer or the end of a batch starts the next.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
from collections import deque
from collections.abc import AsyncIterator, Callable, Iterable
from typing import Any, TypeAlias
from weakref import WeakKeyDictionary

from skate._core.argument_checks import shown
from skate.serve._replica.decorated_methods import owner_of
from skate.serve._routing.requests import Arguments, NamedArguments
from skate.serve.context import RequestContext, _request, request_context, set_batch_requests
from skate.serve.exceptions import SkateServeError

__all__ = ["batch"]

Answer: TypeAlias = "asyncio.Future[Any]"  # to one call
SizeOf = Callable[[list[Any]], int]
Function = Callable[..., Any]  # of the user, for a list of items

_END: Any = object()


class _BatchedCall:
    """One call that waits to become part of a batch."""

    __slots__ = ("args", "deadline", "future", "kwargs", "request")

    def __init__(
        self, args: Arguments, kwargs: NamedArguments, deadline: float, future: Answer
    ) -> None:
        self.args = args
        self.kwargs = kwargs
        self.deadline = deadline
        self.future = future
        self.request = request_context()

    @property
    def shape(self) -> tuple[Any, ...]:
        """Only calls of one shape and one model can share an execution."""
        return len(self.args), tuple(self.kwargs), self.request.multiplexed_model_id


class _BatchSettings:
    """What a batched function was given; it travels with the function, the queues do not."""

    def __init__(
        self,
        function: Function,
        max_batch_size: int,
        batch_wait_timeout_s: float,
        max_concurrent_batches: int,
        size_of: SizeOf | None,
    ) -> None:
        self.function = function
        self.max_batch_size = max_batch_size
        self.batch_wait_timeout_s = batch_wait_timeout_s
        self.max_concurrent_batches = max_concurrent_batches
        self.size_of = size_of
        self.signature = inspect.signature(function)
        self._forget_queues()

    def _forget_queues(self) -> None:
        self._queues: WeakKeyDictionary[Any, dict[Any, _BatchQueue]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_queues"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._forget_queues()

    def set_max_batch_size(self, new_max_batch_size: int) -> None:
        """Let lists be as large as this from now on."""
        self.max_batch_size = _batch_size("max_batch_size", new_max_batch_size)

    def set_batch_wait_timeout_s(self, new_batch_wait_timeout_s: float) -> None:
        """Let calls wait as many seconds from now on."""
        self.batch_wait_timeout_s = _wait("batch_wait_timeout_s", new_batch_wait_timeout_s)

    def enqueue(self, args: Arguments, kwargs: NamedArguments) -> Answer:
        """Return the future of this call's result."""
        owner = owner_of(self.function, args)
        bound = self.signature.bind(*args, **kwargs)
        given = bound.args if owner is None else bound.args[1:]
        return self._queue(owner).put(given, bound.kwargs)

    def _queue(self, owner: object) -> _BatchQueue:
        queues = self._queues.setdefault(asyncio.get_running_loop(), {})
        key = id(owner)
        if key not in queues:
            queues[key] = _BatchQueue(self, owner)
        return queues[key]


class _BatchQueue:
    """Calls that wait, and batches that run, on one event loop."""

    def __init__(self, settings: _BatchSettings, owner: object) -> None:
        self._settings = settings
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self._waiting: deque[_BatchedCall] = deque()
        self._running: set[asyncio.Task[None]] = set()
        self._timer: asyncio.TimerHandle | asyncio.Handle | None = None

    def put(self, args: Arguments, kwargs: NamedArguments) -> Answer:
        """Add a call; return the future of its result."""
        future: Answer = self._loop.create_future()
        deadline = self._loop.time() + self._settings.batch_wait_timeout_s
        self._waiting.append(_BatchedCall(args, kwargs, deadline, future))
        if self._timer is None:
            # Not at once: others that are ready to call may do so in the same round of the loop.
            self._timer = self._loop.call_soon(self._look)
        elif len(self._waiting) >= self._settings.max_batch_size:
            self._plan(0)
        return future

    def _plan(self, delay: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        soon, later = self._loop.call_soon, self._loop.call_later
        self._timer = later(delay, self._look) if delay > 0 else soon(self._look)

    def _look(self) -> None:
        """Start what is full or has waited long enough; plan the next look."""
        self._timer = None
        while self._waiting and len(self._running) < self._settings.max_concurrent_batches:
            calls, is_full = self._next_batch()
            left = calls[0].deadline - self._loop.time() if calls else 0
            if calls and not is_full and left > 0:
                self._plan(left)
                return
            for _ in calls:
                self._waiting.popleft()
            self._start([call for call in calls if not call.future.done()])

    def _next_batch(self) -> tuple[list[_BatchedCall], bool]:
        """Return the calls at the head that fit together, and whether no other one would."""
        limit, size_of = self._settings.max_batch_size, self._settings.size_of
        if size_of is None:
            calls = list(itertools.islice(self._waiting, limit))
            return calls, len(calls) >= limit
        calls = []
        for call in list(self._waiting):
            size = size_of([_item(each) for each in (*calls, call)])
            if size > limit and not calls:
                self._waiting.popleft()
                call.future.set_exception(_too_large(size, limit))
                continue
            if size > limit:
                return calls, True
            calls.append(call)
            if size == limit:
                return calls, True
        return calls, False

    def _start(self, calls: list[_BatchedCall]) -> None:
        if calls:
            task = self._loop.create_task(self._run(calls))
            self._running.add(task)
            task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._running.discard(task)
        if self._waiting:
            self._plan(0)

    async def _run(self, calls: list[_BatchedCall]) -> None:
        groups: dict[Any, list[_BatchedCall]] = {}
        for call in calls:
            groups.setdefault(call.shape, []).append(call)
        if len(groups) == 1:
            await self._run_together(calls)
        else:
            await asyncio.gather(*map(self._run_together, groups.values()))

    async def _run_together(self, calls: list[_BatchedCall]) -> None:
        model_id = calls[0].request.multiplexed_model_id
        _request.set(RequestContext(multiplexed_model_id=model_id) if model_id else None)
        set_batch_requests([call.request for call in calls])
        futures: list[Answer | None] = [call.future for call in calls]  # None: its stream ended
        try:
            result = self._call_function(calls)
            if inspect.isasyncgen(result):
                await _distribute_items(result, futures)
            else:
                results = _checked(await result, len(calls))
                for call, value in zip(calls, results, strict=True):
                    _resolve(call.future, value)
        except BaseException as error:
            # StopIteration cannot be raised into a future; a batch that was cancelled or closed
            # must not look like a call that was.
            unfit = isinstance(error, (StopIteration, GeneratorExit, asyncio.CancelledError))
            failure = SkateServeError(f"the batch ended by {error!r}") if unfit else error
            for future in futures:
                if future is not None and not future.done():
                    future.set_exception(failure)
            if not isinstance(error, Exception):
                raise

    def _call_function(self, calls: list[_BatchedCall]) -> Any:
        owner = () if self._owner is None else (self._owner,)
        columns = [list(column) for column in zip(*(call.args for call in calls), strict=True)]
        named = {key: [call.kwargs[key] for call in calls] for key in calls[0].kwargs}
        return self._settings.function(*owner, *columns, **named)


def _item(call: _BatchedCall) -> Any:
    return call.args[0] if call.args else next(iter(call.kwargs.values()))


def _too_large(size: int, limit: int) -> RuntimeError:
    return RuntimeError(
        "Size of item is greater than max_batch_size: "
        f"batch_size_fn says {size} for one item, and max_batch_size is {limit}; increase it"
    )


def _checked(results: Any, count: int) -> Iterable[Any]:
    length = len(results) if hasattr(results, "__len__") else None
    if length != count:
        raise SkateServeError(
            f"a batched function must return one result per item: it was given {count}, and "
            "returned "
            + (
                shown(results)
                if length is None
                else f"a {type(results).__name__} of length {length}"
            )
        )
    checked: Iterable[Any] = results
    return checked


def _resolve(future: Answer, value: object) -> None:
    if not future.done():  # its caller may have gone
        future.set_result(value)


# -- batches that stream ------------------------------------------------------------------------


async def _distribute_items(batches: AsyncIterator[object], futures: list[Answer | None]) -> None:
    """Give each caller its part of every list that the function yields.

    A future's result is (item, future of the next item); StopIteration as an item ends one
    caller's stream.
    """
    loop = asyncio.get_running_loop()
    async for items in batches:
        for index, item in enumerate(_checked(items, len(futures))):
            future = futures[index]
            if future is None:
                continue
            if item is StopIteration or item is StopAsyncIteration:
                _resolve(future, (_END, None))
                futures[index] = None
            else:
                futures[index] = following = loop.create_future()
                _resolve(future, (item, following))
    for future in futures:
        if future is not None:
            _resolve(future, (_END, None))


async def _items(future: Answer) -> AsyncIterator[Any]:
    while True:
        item, following = await future
        if item is _END:
            return
        yield item
        future = following


# -- the decorator ------------------------------------------------------------------------------


def _batch_size(name: str, value: Any) -> int:
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    if not whole or isinstance(value, bool):
        raise TypeError(f"{name} must be integer >= 1; got {value!r}")
    if value < 1:
        raise ValueError(f"{name} must be an integer >= 1; got {value!r}")
    return int(value)


def _wait(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{name} must be a float >= 0; got {value!r}")
    if value < 0:
        raise ValueError(f"{name} must be a float >= 0; got {value!r}")
    return value


def batch(
    _func: Function | None = None,
    /,
    max_batch_size: int = 10,
    batch_wait_timeout_s: float = 0.01,
    max_concurrent_batches: int = 1,
    batch_size_fn: SizeOf | None = None,
) -> Any:
    """Let an `async def` function or method answer many calls at once.

    It is called with one item and written for a list of them: it returns a list of as many
    results, or yields such lists.

    Args:
        _func: The function or method; without it, the result is a decorator.
        max_batch_size: How large a list may be.
        batch_wait_timeout_s: Seconds that a call waits at the most for others to join it.
        max_concurrent_batches: How many lists are worked on at a time.
        batch_size_fn: Returns how large a list of items is, where its length does not say it.

    Returns:
        The function, to be called with one item, or a decorator for it. Its methods
        `set_max_batch_size` and `set_batch_wait_timeout_s` change the limits later.

    Raises:
        TypeError: If it is no `async def` function, or a limit has the wrong type.
        ValueError: If a limit is too small.

    Example:
        >>> from skate import serve
        >>> class Model:
        ...     @serve.batch(max_batch_size=8)
        ...     async def predict(self, inputs: list[int]) -> list[int]:
        ...         return [2 * each for each in inputs]
    """
    if _func is not None:
        _check_function(_func)
    size = _batch_size("max_batch_size", max_batch_size)
    wait = _wait("batch_wait_timeout_s", batch_wait_timeout_s)
    most = _batch_size("max_concurrent_batches", max_concurrent_batches)
    if batch_size_fn is not None and not callable(batch_size_fn):
        raise TypeError(f"batch_size_fn takes a callable or None; got {batch_size_fn!r}")

    def decorate(function: Function) -> Any:
        _check_function(function)
        return _wrapped(_BatchSettings(function, size, wait, most, batch_size_fn))

    return decorate if _func is None else decorate(_func)


def _check_function(function: object) -> None:
    if not callable(function):
        raise TypeError(f"@serve.batch is for functions or methods; got {function!r}")
    if not inspect.iscoroutinefunction(function) and not inspect.isasyncgenfunction(function):
        raise TypeError(
            "what is decorated with @serve.batch must be 'async def'; "
            f"{getattr(function, '__qualname__', function)} is not"
        )


def _wrapped(settings: _BatchSettings) -> Any:
    function = settings.function
    wrapper: Any
    if inspect.isasyncgenfunction(function):

        @functools.wraps(function)
        def stream(*args: object, **kwargs: object) -> AsyncIterator[Any]:
            return _items(settings.enqueue(args, kwargs))

        wrapper = stream
    else:

        @functools.wraps(function)
        async def call(*args: object, **kwargs: object) -> Any:
            return await settings.enqueue(args, kwargs)

        wrapper = call
    wrapper.set_max_batch_size = settings.set_max_batch_size
    wrapper.set_batch_wait_timeout_s = settings.set_batch_wait_timeout_s
    wrapper._counts_items = settings.size_of is None
    wrapper._get_max_batch_size = lambda: settings.max_batch_size
    wrapper._get_batch_wait_timeout_s = lambda: settings.batch_wait_timeout_s
    return wrapper
