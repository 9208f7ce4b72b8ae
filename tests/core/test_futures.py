"""References as futures, where the one who waits has gone or refuses the result."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import skate
from skate._core.futures import asyncio_future, concurrent_future, stream_item_ready
from skate._core.refs import ObjectRef


class Later:
    """An engine whose values become ready when the test says so."""

    awaits = None

    def __init__(self, value: Any) -> None:
        self.engine = self
        self.value = value
        self.callbacks: list[Callable[[], None]] = []
        self.ref: ObjectRef[Any] = ObjectRef(1, self)  # type: ignore[arg-type]

    def add_done_callback(self, ref: Any, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def add_stream_callback(self, ref: Any, index: int, callback: Callable[[], None]) -> None:
        self.callbacks.append(callback)

    def stream_ready(self, ref: Any, index: int) -> bool:
        return False

    def get(self, refs: Any, timeout: float) -> list[Any]:
        if isinstance(self.value, BaseException):
            raise self.value
        return [self.value]

    def dropped(self, ref: Any) -> None: ...

    def finish(self) -> None:
        for callback in self.callbacks:
            callback()


def test_a_concurrent_future() -> None:
    later = Later(3)
    future = concurrent_future(later.ref)
    assert not future.done()
    later.finish()
    assert future.result(timeout=0) == 3


def test_a_concurrent_future_that_was_cancelled() -> None:
    later = Later(3)
    future = concurrent_future(later.ref)
    assert future.cancel()
    later.finish()
    assert future.cancelled()


def test_errors_arrive() -> None:
    later = Later(ValueError("x"))
    future = concurrent_future(later.ref)
    later.finish()
    with pytest.raises(ValueError, match="x"):
        future.result(timeout=0)


def test_awaiting() -> None:
    async def main() -> Any:
        later = Later(3)
        asyncio.get_running_loop().call_soon(later.finish)
        return await asyncio.wait_for(asyncio_future(later.ref), 60)

    assert asyncio.run(main()) == 3


def test_a_future_that_was_cancelled_or_whose_loop_is_gone() -> None:
    later = Later(3)

    async def main() -> asyncio.Future[Any]:
        asyncio_future(later.ref).cancel()
        later.finish()
        await asyncio.sleep(0)
        return asyncio_future(later.ref)

    future = asyncio.run(main())
    later.finish()
    assert not future.done()


def test_waiting_for_an_item_of_a_stream() -> None:
    async def main() -> None:
        later: Any = Later(None)
        waiting = asyncio.create_task(stream_item_ready(later, later.ref, 0))
        await asyncio.sleep(0)
        later.finish()
        await asyncio.wait_for(waiting, 60)

    asyncio.run(main())


@pytest.mark.engines("inline")
@pytest.mark.usefixtures("engine")
def test_a_remote_stop_iteration_can_be_awaited() -> None:
    @skate.remote
    def stop() -> None:
        raise StopIteration

    async def main() -> None:
        await stop.remote()

    with pytest.raises(skate.exceptions.TaskError, match="StopIteration"):
        asyncio.run(main())
