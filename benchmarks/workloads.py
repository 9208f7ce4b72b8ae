"""What is measured on skate and on Ray: the same code, only the module differs.

Functions and classes are defined inside the workloads, so that they travel by value and the
workers need not import this package.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from benchmarks.processes import engine_megabytes
from benchmarks.timing import fastest, rate, timed

MEGABYTE = 1 << 20
BATCH = 1_000

# Takes the module and a budget in seconds; returns the row's number.
Workload = Callable[[Any, float], float]


def start(api: Any, **arguments: Any) -> None:
    quiet = {"include_dashboard": False, "logging_level": "ERROR"}
    extra = quiet if api.__name__ == "ray" else {}
    api.init(num_cpus=2, log_to_driver=False, **extra, **arguments)


def echo(api: Any) -> Any:
    def answer(*args: Any) -> bytes:
        return b"ok"

    return api.remote(answer)


def echo_actor(api: Any) -> Any:
    class Echo:
        def answer(self, *args: Any) -> bytes:
            return b"ok"

    return api.remote(Echo)


def repeat(count: int, call: Callable[[], object]) -> Callable[[], None]:
    def loop() -> None:
        for _ in range(count):
            call()

    return loop


# -- tasks ---------------------------------------------------------------------------------------


def task_sync(api: Any, budget: float) -> float:
    answer = echo(api)
    return rate(repeat(200, lambda: api.get(answer.remote())), 200, budget)


def task_async(api: Any, budget: float) -> float:
    answer = echo(api)
    return rate(lambda: api.get([answer.remote() for _ in range(BATCH)]), BATCH, budget)


def executor(api: Any, budget: float) -> float:
    def batch() -> None:
        for future in [pool.submit(len, b"ok") for _ in range(BATCH)]:
            future.result()

    with api.util.Executor(2) as pool:
        return rate(batch, BATCH, budget)


def call_with_reference(api: Any, budget: float) -> float:
    """How much longer a call takes when its argument is a reference to 64 MB."""
    import numpy as np

    answer = echo(api)
    big = api.put(np.ones(64 * MEGABYTE, np.uint8))
    plain = fastest(repeat(100, lambda: api.get(answer.remote(1))), budget / 2)
    return fastest(repeat(100, lambda: api.get(answer.remote(big))), budget / 2) / plain


def wait_one_by_one(api: Any, budget: float) -> float:
    """Times per second that 1,000 tasks are started and taken one at a time."""
    answer = echo(api)

    def drain() -> None:
        left = [answer.remote() for _ in range(BATCH)]
        while left:
            _, left = api.wait(left)

    return 1 / fastest(drain, budget, least=2)


# -- actors --------------------------------------------------------------------------------------


def actor_sync(api: Any, budget: float) -> float:
    actor = echo_actor(api).remote()
    return rate(repeat(200, lambda: api.get(actor.answer.remote())), 200, budget)


def actor_async(api: Any, budget: float) -> float:
    actor = echo_actor(api).remote()
    return rate(lambda: api.get([actor.answer.remote() for _ in range(BATCH)]), BATCH, budget)


def actor_many_to_many(api: Any, budget: float) -> float:
    """Two callers that send batches to two others."""

    class Caller:
        def __init__(self, servers: list[Any]) -> None:
            self.servers = servers

        def drive(self, count: int) -> None:
            half = count // 2
            api.get([server.answer.remote() for server in self.servers for _ in range(half)])

    servers = [echo_actor(api).remote() for _ in range(2)]
    callers = [api.remote(Caller).remote(servers) for _ in range(2)]
    return rate(lambda: api.get([c.drive.remote(BATCH) for c in callers]), 2 * BATCH, budget)


def actor_async_methods(api: Any, budget: float) -> float:
    class Coroutines:
        async def answer(self) -> bytes:
            return b"ok"

    actor = api.remote(Coroutines).remote()
    return rate(lambda: api.get([actor.answer.remote() for _ in range(BATCH)]), BATCH, budget)


def actors_created(api: Any, budget: float) -> float:
    """Actors that were created and have answered, per second, workers being warm."""
    echoes = echo_actor(api)
    many = 4 if api.__name__ == "ray" else 50

    def create() -> None:
        actors = [echoes.remote() for _ in range(many)]
        api.get([actor.answer.remote() for actor in actors])

    return many / fastest(create, budget, least=2)


# -- objects -------------------------------------------------------------------------------------


def put_small(api: Any, budget: float) -> float:
    return rate(repeat(BATCH, lambda: api.put(0)), BATCH, budget)


def get_small(api: Any, budget: float) -> float:
    ref = api.put(0)
    return rate(repeat(BATCH, lambda: api.get(ref)), BATCH, budget)


def put_large(api: Any, budget: float) -> float:
    """GB per second, the segment being free again before the next one is put."""
    import numpy as np

    array = np.ones(64 * MEGABYTE, np.uint8)
    return array.nbytes / 1e9 / fastest(lambda: api.put(array), budget)


# -- surroundings --------------------------------------------------------------------------------


def two_busy_workers(api: Any) -> None:
    """Both CPUs have worked at the same time, so two workers exist."""
    import time

    def pause() -> None:
        time.sleep(0.5)

    api.get([api.remote(pause).remote() for _ in range(2)])


def memory_idle(api: Any, budget: float) -> float:
    two_busy_workers(api)
    return engine_megabytes()


def memory_actors(api: Any, budget: float) -> float:
    two_busy_workers(api)
    actors = [echo_actor(api).remote() for _ in range(13)]
    api.get([actor.answer.remote() for actor in actors])
    return engine_megabytes()


def shutdown(api: Any, budget: float) -> float:
    """Seconds; with two workers, an actor and an object."""

    def once() -> float:
        two_busy_workers(api)
        actor = echo_actor(api).remote()
        held = api.put(b"x" * MEGABYTE), api.get(actor.answer.remote())
        seconds = timed(api.shutdown)
        del held
        return seconds

    first = once()
    start(api)
    return min(first, once())


WORKLOADS: dict[str, Workload] = {
    work.__name__: work
    for work in (
        task_sync, task_async, executor, actor_sync, actor_async, actor_many_to_many,
        actor_async_methods,
        put_small, get_small, put_large, call_with_reference, wait_one_by_one, actors_created,
        memory_idle, memory_actors, shutdown,
    )
}  # fmt: skip


def measure(name: str, workload: str, budget: float) -> float:
    """Run one workload on the module of that name, in a session of its own."""
    api = __import__(name)
    start(api)
    try:
        return WORKLOADS[workload](api, budget)
    finally:
        api.shutdown()


skate = functools.partial(measure, "skate")
ray = functools.partial(measure, "ray")
