"""Answers of a worker: values, errors, items of streams."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable, Generator, Iterator
from itertools import islice
from types import GeneratorType, TracebackType
from typing import TYPE_CHECKING, Any

from skate import exceptions
from skate._core import serialization
from skate._core.refs import DynamicObjectRefGenerator
from skate._core.serialization import Serialized
from skate.engine.local import messages as m
from skate.engine.local.messages import Work, WorkerValue, WorkSettings
from skate.engine.local.objects import FAILED, INLINE, INLINE_LIMIT_BYTES
from skate.engine.local.reactor import Waiter
from skate.engine.local.wire import Message, encode, encode_result

if TYPE_CHECKING:
    from skate.engine.local.worker import WorkerEngine


class Answers:
    def __init__(self, engine: WorkerEngine) -> None:
        self._engine = engine
        self._credits: dict[int, int] = {}  # of streams: items that the consumer has taken
        self._credit_came: dict[int, Waiter] = {}

    # -- values --------------------------------------------------------------------------------

    def give(self, work: Work, value: object, start: float) -> None:
        """Answer with what the function returned."""
        operation, id, _, _, _, _, count, settings = work
        if operation == m.CALL:
            self._engine.execution.leave_if_asked()
            if id in self._engine.execution.cancelled:
                self.interrupted(work, start)
                return
        if settings and operation != m.CREATION:
            if "streaming" in settings:
                self._stream(work, value, start)
                return
            if "dynamic" in settings:
                value = self._collect(work, value)
        if isinstance(value, GeneratorType) and count:
            self._send_values(id, self._items(work, value, count), start)
        elif count <= 1:
            kind, data, contained = self.pack(value if count else None)
            self._send(id, encode_result(id, kind, data, contained, _micros(start)))
        else:
            # Nothing is kept before all are known to be serialisable.
            prepared = [_prepared(item) for item in _exactly(value, count)]
            self._send_values(id, [self._keep(item) for item in prepared], start)

    def _send_values(self, id: int, values: list[WorkerValue], start: float) -> None:
        if len(values) == 1:
            self._send(id, encode_result(id, *values[0], _micros(start)))
        else:
            self._send(id, encode(m.WorkResults(id, values, _micros(start))))

    def _items(self, work: Work, items: Iterator[object], count: int) -> list[WorkerValue]:
        """Return the first items of a generator, stored as they come; after an error, the
        error."""
        values: list[WorkerValue] = []
        try:
            for item in islice(items, count):
                values.append(self.pack(item))
            if len(values) < count:
                raise _wrong_count(count, len(values))
        except Exception as error:
            if _may_retry(work.settings, error):
                raise
            values += [(FAILED, self._packed_error(work, error), ())] * (count - len(values))
        return values

    def _collect(self, work: Work, items: object) -> DynamicObjectRefGenerator[Any]:
        """Return all items as references; an error on the way is the last one."""
        refs = []
        try:
            for item in _iterate(items):
                refs.append(self._engine.put(item))
        except Exception as error:
            if _may_retry(work.settings, error):
                raise
            refs.append(self._engine.put_error(self._packed_error(work, error)))
        return DynamicObjectRefGenerator(refs)

    def _packed_error(self, work: Work, error: Exception) -> Any:
        execution = self._engine.execution
        return execution.remote_error(error, execution.preparation.name_of(work))

    def pack(self, value: object) -> WorkerValue:
        return self._keep(_prepared(value))

    def _keep(self, serialized: bytes | Serialized) -> WorkerValue:
        if isinstance(serialized, bytes):
            return INLINE, serialized, ()
        kind, stored = self._engine.keep(serialized)
        if serialized.refs:
            with self._engine.lock:
                return kind, stored, self._engine.published(serialized.refs)
        return kind, stored, ()

    def _send(self, id: int, message: Message) -> None:
        """Tell whoever wants to know of the work with this id."""
        engine, execution = self._engine, self._engine.execution
        execution.unanswered.discard(id)
        if execution.cancelled:
            execution.cancelled.discard(id)
        if engine.unfinished_lines:
            engine.finish_lines(execution.current())
        if execution.callers:
            caller = execution.callers.pop(id, None)
            if caller is not None:
                engine.peers.reply(caller, message)
                return
        with engine.lock:
            borrowed = execution.preparation.borrowed
            if borrowed and id in borrowed:
                engine.keep_borrowed(borrowed.pop(id))
            engine.reactor.collect(engine.hub, message)

    # -- errors --------------------------------------------------------------------------------

    def fail(self, work: Work, error: BaseException, start: float) -> None:
        """Answer with what the function raised."""
        id = work.id
        execution = self._engine.execution
        name = execution.preparation.name_of(work)
        asked_for = id in execution.cancelled and isinstance(error, _INTERRUPTS)
        if asked_for or isinstance(error, KeyboardInterrupt):  # which it may have raised itself
            self.interrupted(work, start, error.__traceback__)
            return
        packed = execution.remote_error(error, name)
        if work.operation != m.CREATION and _may_retry(work.settings, error):
            self._send(id, encode(m.RetryWork(id, FAILED, packed, _micros(start))))
        else:
            self._send_error(work, packed, _micros(start))

    def _send_error(self, work: Work, packed: object, micros: int) -> None:
        id, count = work.id, work.num_returns
        if count <= 1:
            self._send(id, encode_result(id, FAILED, packed, (), micros))
        else:
            values = [(FAILED, packed, ())] * count
            self._send(id, encode(m.WorkResults(id, values, micros)))

    def interrupted(self, work: Work, start: float, where: TracebackType | None = None) -> None:
        """Answer that what had begun was cancelled.

        Of tasks and async methods the error is of both kinds, as in Ray: cancelled, and with a
        traceback of where they were.
        """
        execution = self._engine.execution
        if execution.actor.id and not execution.actor.settings["is_async"]:
            self.cancelled(work)
            return
        error = exceptions.TaskCancelledError(work.id.to_bytes(16, "big").hex())
        name = execution.preparation.name_of(work)
        packed = execution.remote_error(error.with_traceback(where), name)
        self._send_error(work, packed, _micros(start))

    def cancelled(self, work: Work) -> None:
        """Answer that somebody has cancelled what never began, or has ended without a value."""
        error = exceptions.TaskCancelledError(
            work.id.to_bytes(16, "big").hex(), self._engine.execution.preparation.name_of(work)
        )
        self._send_error(work, serialization.dumps(error).packed(), 0)

    # -- streams -------------------------------------------------------------------------------

    def _stream(self, work: Work, items: object, start: float) -> None:
        id = work.id
        limit = work.settings.get("backpressure") if work.settings else None
        try:
            for index, item in enumerate(_iterate(items)):
                self.item(id, index, item)
                self._engine.execution.stop_if_cancelled()
                if id in self._engine.execution.cancelled:  # a call of an actor
                    _close(items)
                    raise exceptions.TaskCancelledError
                if not self._may_go_on(id, index + 1, limit):
                    _close(items)
                    break
        except BaseException:
            self._credits.pop(id, None)
            raise
        self.finish_stream(work, start)

    def finish_stream(self, work: Work, start: float) -> None:
        self._engine.execution.leave_if_asked()
        id = work.id
        self._credits.pop(id, None)
        self._send(id, encode_result(id, *self.pack(None), _micros(start)))

    async def credit(self, task_id: int) -> None:
        """Wait until the consumer has taken something, or wants no more."""
        import asyncio

        loop = asyncio.get_running_loop()
        came = loop.create_future()
        waiter = _CallingWaiter(lambda: loop.call_soon_threadsafe(_resolve, came))
        self._credit_came[task_id] = waiter
        await came

    def item(self, task_id: int, index: int, value: object) -> None:
        engine = self._engine
        item_id = engine.next_id()
        packed = self.pack(value)
        with engine.lock:
            engine.send(m.StreamItem(task_id, index, item_id, *packed))
        engine.reactor.flush()

    def on_credit(self, task_id: int, taken: int) -> None:
        if task_id not in self._engine.execution.unanswered:
            return  # the stream has ended
        self._credits[task_id] = taken
        waiter = self._credit_came.get(task_id)
        if waiter is not None:
            waiter.finish()

    def wanted(self, task_id: int) -> bool:
        return self._credits.get(task_id) != -1

    def _may_go_on(self, task_id: int, produced: int, limit: int | None) -> bool:
        """Return whether to produce more; waits while the consumer is `limit` items behind."""
        while limit and self.wanted(task_id) and self.behind(task_id, produced) >= limit:
            waiter = self._credit_came[task_id] = Waiter()
            if self.behind(task_id, produced) >= limit and self.wanted(task_id):
                self._engine.execution.wait(waiter, None)
        self._credit_came.pop(task_id, None)
        return self.wanted(task_id)

    def behind(self, task_id: int, produced: int) -> int:
        return produced - self._credits.get(task_id, 0)


class _CallingWaiter(Waiter):
    __slots__ = ("_call",)

    def __init__(self, call: Callable[[], object]) -> None:
        super().__init__()
        self._call = call

    def finish(self) -> None:
        if not self.done:
            self.done = True
            self._call()


def _resolve(future: Any) -> None:
    if not future.done():
        future.set_result(None)


_INTERRUPTS = (KeyboardInterrupt, exceptions.TaskCancelledError)


def _may_retry(settings: WorkSettings | None, error: BaseException) -> bool:
    if not settings or "retry_exceptions" not in settings:
        return False
    return isinstance(error, serialization.loads(settings["retry_exceptions"]))


def _micros(start: float) -> int:
    return int((time.perf_counter() - start) * 1e6)


def _prepared(value: object) -> bytes | Serialized:
    """Return the value in bytes if it is plain and small, else as it can be laid out in memory."""
    if serialization.is_plain((value,)):
        data = pickle.dumps(value, 5)
        if len(data) <= INLINE_LIMIT_BYTES:
            return data
    return serialization.dumps(value, "result")


def _exactly(value: Any, count: int) -> list[Any]:
    try:
        items = list(value)
    except TypeError:
        raise TypeError(
            f"the function has num_returns={count} and must return that many values; "
            f"it returned {type(value).__name__}"
        ) from None
    if len(items) != count:
        raise _wrong_count(count, len(items))
    return items


def _wrong_count(wanted: int, given: int) -> ValueError:
    return ValueError(f"Task returned {given} objects, but num_returns={wanted}")


def _iterate(items: Any) -> Iterator[Any]:
    try:
        return iter(items)
    except TypeError:
        raise ValueError(
            'the function has num_returns="streaming" and must be a generator; '
            f"it returned {type(items).__name__}"
        ) from None


def _close(items: object) -> None:
    if isinstance(items, Generator):
        items.close()
