"""What type checkers know of actors."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from typing_extensions import assert_type

import skate
from skate import ActorClass, ActorHandle, ObjectRef, ObjectRefGenerator
from skate.util import ActorPool
from skate.util.queue import Queue


@skate.remote
class Counter(skate.Actor):
    def __init__(self, start: int, step: int = 1) -> None:
        self.value = start
        self.step = step

    @skate.method
    def add(self, n: int, *, times: int = 1) -> int:
        self.value += n * times * self.step
        return self.value

    @skate.method
    def twice(self) -> int:
        assert_type(self.add(1), int)  # its own methods are called as they are
        return self.add(1) + self.add(1)

    @skate.method(num_returns=2, name="pair")
    def pair(self) -> tuple[int, str]:
        return self.value, str(self.value)

    @skate.method(concurrency_group="io")
    async def wait(self, seconds: float) -> str:
        return f"{seconds}{await self.wait(seconds)}"

    @skate.method
    def stream(self, n: int) -> Iterator[int]:
        yield from range(n)

    @skate.method(num_returns="streaming")
    async def feed(self, n: int) -> AsyncIterator[str]:
        for i in range(n):
            yield str(i)


@skate.remote(num_cpus=1, max_restarts=2)
class Optional(skate.Actor):
    @skate.method
    def name(self) -> str:
        return "optional"


class Plain:
    def __init__(self, start: int) -> None:
        self.value = start

    def add(self, n: int) -> int:
        return self.value + n


PlainActor = skate.remote(Plain)
OtherActor = skate.remote(num_cpus=1, max_concurrency=2)(Plain)


def typed(number: ObjectRef[int]) -> None:
    counter = Counter.remote(1)
    assert_type(counter, Counter)
    assert_type(Counter.remote(number, step=2), Counter)
    assert_type(Counter.options(name="one", lifetime="detached").remote(start=1), Counter)
    assert_type(counter.add.remote(2), ObjectRef[int])
    assert_type(counter.add.remote(number, times=2), ObjectRef[int])
    assert_type(counter.add.remote(n=2), ObjectRef[int])
    assert_type(skate.get(counter.add.remote(2)), int)
    assert_type(skate.get([counter.twice.remote() for _ in range(2)]), list[int])
    assert_type(counter.pair.remote(), list[ObjectRef[Any]])
    assert_type(counter.wait.remote(0.5), ObjectRef[str])
    assert_type(counter.stream.remote(3), ObjectRefGenerator[int])
    assert_type(counter.feed.remote(n=3), ObjectRefGenerator[str])
    assert_type(counter.add.options(num_returns=2).remote(2), list[ObjectRef[Any]])
    assert_type(counter.add.options(concurrency_group="io").remote(2), ObjectRef[int])
    assert_type(Optional.remote().name.remote(), ObjectRef[str])
    skate.get(counter.__ray_ready__.remote())
    skate.kill(counter)


def untyped() -> None:
    handle = PlainActor.remote(1)
    assert_type(handle, ActorHandle[Plain])
    assert_type(handle.add.remote(1), Any)
    assert_type(handle.add.options(num_returns=2).remote(1), list[ObjectRef[Any]])
    assert_type(OtherActor.remote(1), ActorHandle[Plain])
    assert_type(PlainActor.options(num_cpus=2).remote(start=1), ActorHandle[Plain])
    some: ActorClass[Plain] = PlainActor
    some.remote(1)
    skate.kill(handle, no_restart=False)


def found() -> None:
    counter: Counter = skate.get_actor("counter")
    assert_type(counter.add.remote(2), ObjectRef[int])
    handle: ActorHandle[Plain] = skate.get_actor("plain", namespace="n")
    assert_type(handle.add.remote(2), Any)


def pools(counters: list[Counter]) -> None:
    pool = ActorPool(counters)
    assert_type(pool, ActorPool[Counter])
    assert_type(list(pool.map(lambda actor, n: actor.add.remote(n), [1, 2])), list[int])
    for text in pool.map_unordered(lambda actor, s: actor.wait.remote(s), [0.1]):
        assert_type(text, str)
    pool.submit(lambda actor, n: actor.add.remote(n), 1)
    assert_type(pool.pop_idle(), Counter | None)


def queues() -> None:
    queue: Queue[int] = Queue(maxsize=2, actor_options={"num_cpus": 0})
    queue.put(1)
    assert_type(queue.get(timeout=1), int)
    assert_type(queue.get_nowait_batch(2), list[int])


async def asynchronous(queue: Queue[str]) -> None:
    await queue.put_async("a")
    assert_type(await queue.get_async(), str)
    assert_type(await Counter.remote(1).wait.remote(1.0), str)
