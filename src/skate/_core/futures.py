"""References as futures. Engines call back on any thread; results go to whoever waits."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Callable
from typing import Any

from skate._core.errors import without_own_frames
from skate._core.refs import ObjectRef
from skate.engine.base import Engine


def concurrent_future(ref: ObjectRef[object]) -> concurrent.futures.Future[Any]:
    """Return a `concurrent.futures.Future` of the value."""
    future: concurrent.futures.Future[Any] = concurrent.futures.Future()
    engine = ref._home.engine

    def done() -> None:
        if future.set_running_or_notify_cancel():
            _settle(engine, ref, future.set_result, future.set_exception)

    engine.add_done_callback(ref, done)
    return future


def asyncio_future(ref: ObjectRef[object]) -> asyncio.Future[Any]:
    """Return a future of the value on the event loop: the running one, or that of the thread."""
    loop = _event_loop()
    future: asyncio.Future[Any] = loop.create_future()
    engine = ref._home.engine
    awaits = engine.awaits
    if awaits is not None:
        awaits.add(future, ref)

    def settle() -> None:
        if awaits is not None:
            awaits.discard(future)
        if not future.done():
            _settle(engine, ref, future.set_result, future.set_exception)

    engine.add_done_callback(ref, _on_loop(loop, settle))
    return future


def _event_loop() -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:  # it is to run later, as in loop.run_until_complete(ref.as_future())
        return asyncio.get_event_loop()


async def stream_item_ready(engine: Engine, generator: ObjectRef[Any], index: int) -> None:
    """Wait until `engine.stream_next` for this index would not block."""
    if engine.stream_ready(generator, index):
        return
    loop = asyncio.get_running_loop()
    future: asyncio.Future[None] = loop.create_future()

    def settle() -> None:
        if not future.done():
            future.set_result(None)

    engine.add_stream_callback(generator, index, _on_loop(loop, settle))
    await future


def _on_loop(loop: asyncio.AbstractEventLoop, settle: Callable[[], None]) -> Callable[[], None]:
    def call() -> None:
        # A closed loop raises, and everyone who waited there is gone with it.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(settle)

    return call


def _settle(
    engine: Engine,
    ref: ObjectRef[object],
    set_result: Callable[[object], None],
    set_exception: Callable[[BaseException], None],
) -> None:
    try:
        value = engine.get([ref], 0)[0]
    except StopIteration as error:
        # Futures refuse StopIteration, which would end the generator behind a coroutine.
        set_exception(getattr(error, "_task_error", None) or RuntimeError(error))
    except Exception as error:
        set_exception(without_own_frames(error))
    else:
        set_result(value)


def when_done(ref: ObjectRef[object], callback: Callable[[], None]) -> None:
    """Call once when the value or error is there, now if it is: on any thread, without locks.

    The value is not looked at. The callback must not block; the reference must be kept until then.
    """
    ref._home.engine.add_done_callback(ref, callback)


def value_now(ref: ObjectRef[object]) -> Any:
    """Return the value of a reference that is ready, or its error raised; also after its session
    ended, where `skate.get` would begin another."""
    return ref._home.engine.get([ref], 0)[0]
