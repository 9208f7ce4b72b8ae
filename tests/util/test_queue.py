"""The queue that tasks and actors share."""

from __future__ import annotations

import asyncio
import queue
from typing import Any

import pytest

import skate
from skate.util.queue import Empty, Full, Queue
from tests.support import PATIENCE, parallel

pytestmark = pytest.mark.usefixtures("engine")


@skate.remote
def consume(source: Queue, count: int) -> list[Any]:
    return [source.get(timeout=PATIENCE) for _ in range(count)]


@skate.remote
def produce(target: Queue, items: list[Any]) -> None:
    for item in items:
        target.put(item, timeout=PATIENCE)


def test_first_in_first_out() -> None:
    q = Queue()
    for item in range(5):
        q.put(item)
    assert len(q) == q.size() == q.qsize() == 5
    assert [q.get() for _ in range(5)] == list(range(5))
    assert q.empty()


def test_full_and_empty() -> None:
    q = Queue(maxsize=2)
    q.put_nowait("a")
    assert not q.full()
    q.put("b", block=False)
    assert q.full()
    with pytest.raises(Full):
        q.put_nowait("c")
    with pytest.raises(Full):
        q.put("c", timeout=0.01)
    with pytest.raises(Full):
        q.put_nowait_batch(["c"])
    assert q.get_nowait_batch(2) == ["a", "b"]
    with pytest.raises(Empty):
        q.get_nowait()
    with pytest.raises(Empty):
        q.get(timeout=0.01)
    with pytest.raises(Empty):
        q.get_nowait_batch(1)


def test_an_unlimited_queue_is_never_full() -> None:
    q = Queue()
    q.put_nowait_batch(range(1000))
    assert not q.full()


def test_the_errors_are_those_of_the_standard_library_too() -> None:
    assert issubclass(Full, queue.Full)
    assert issubclass(Empty, queue.Empty)
    with pytest.raises(queue.Empty):
        Queue().get_nowait()


def test_batches_are_all_or_nothing() -> None:
    q = Queue(maxsize=3)
    q.put_nowait_batch(iter([1, 2]))
    with pytest.raises(Full):
        q.put_nowait_batch([3, 4])
    with pytest.raises(Empty):
        q.get_nowait_batch(3)
    assert q.get_nowait_batch(2) == [1, 2]
    assert q.get_nowait_batch(0) == []


def test_bad_arguments_are_refused() -> None:
    q: Any = Queue()
    with pytest.raises(ValueError, match="timeout"):
        q.put(1, timeout=-1)
    with pytest.raises(ValueError, match="timeout"):
        q.get(timeout=-1)
    with pytest.raises(TypeError, match="items"):
        q.put_nowait_batch(3)
    with pytest.raises(TypeError, match="num_items"):
        q.get_nowait_batch("3")
    with pytest.raises(ValueError, match="num_items"):
        q.get_nowait_batch(-1)


def test_the_async_methods() -> None:
    async def main() -> list[Any]:
        q = Queue(maxsize=1)
        await q.put_async("a")
        with pytest.raises(Full):
            await q.put_async("b", block=False)
        found = [await q.get_async()]
        with pytest.raises(Empty):
            await q.get_async(timeout=0.01)
        return found

    assert asyncio.run(main()) == ["a"]


def test_a_task_uses_the_same_queue() -> None:
    q = Queue()
    q.put_nowait_batch([1, 2, 3])
    assert skate.get(consume.remote(q, 2)) == [1, 2]
    skate.get(produce.remote(q, [4]))
    assert q.get_nowait_batch(2) == [3, 4]


@parallel
def test_waiting_consumers_and_producers_meet() -> None:
    q = Queue(maxsize=1)
    consumer = consume.remote(q, 20)
    producer = produce.remote(q, list(range(20)))
    assert skate.get(consumer, timeout=PATIENCE) == list(range(20))
    skate.get(producer, timeout=PATIENCE)


def test_options_go_to_the_actor() -> None:
    q = Queue(actor_options={"name": "jobs"})
    q.put(1)
    assert skate.util.list_named_actors() == ["jobs"]


def test_the_actor_can_be_called_itself() -> None:
    q = Queue(maxsize=2)
    skate.get([q.actor.put.remote(1), q.actor.put_nowait.remote(2)], timeout=PATIENCE)
    with pytest.raises(Full):
        skate.get(q.actor.put_nowait.remote(3), timeout=PATIENCE)
    assert skate.get([q.actor.get.remote(), q.actor.get_nowait.remote()]) == [1, 2]
    for refused in (q.actor.get.remote(0.01), q.actor.get_nowait_batch.remote(1)):
        with pytest.raises(Empty):
            skate.get(refused, timeout=PATIENCE)


@pytest.mark.parametrize("force", [True, False])
def test_shutdown_ends_the_actor(force: bool) -> None:
    q = Queue()
    q.put(1)
    actor = q.actor
    q.shutdown(force=force)
    q.shutdown()
    with pytest.raises(skate.exceptions.RayActorError):
        skate.get(actor.qsize.remote(), timeout=PATIENCE)


def test_a_queue_that_was_shut_down_says_so() -> None:
    q = Queue()
    q.shutdown()
    for call in (q.size, q.empty, q.full, q.get, q.get_nowait, lambda: q.put(1)):
        with pytest.raises(RuntimeError, match="was shut down"):
            call()
