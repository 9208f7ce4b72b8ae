"""What a session keeps does not grow with how long it has been used."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import skate
from skate.engine import installed_engine
from skate.engine.local import messages as m
from skate.engine.local.objects import ObjectEntry
from skate.engine.local.wire import encode
from skate.util import placement_group, remove_placement_group
from tests.support import Flag, eventually, local_only

pytestmark = [local_only, pytest.mark.usefixtures("engine")]

MANY = 5000


@skate.remote
def identity(x: Any) -> Any:
    return x


@skate.remote
class Submitter:
    def submit(self, count: int) -> int:
        """How many options this process remembers after having used so many."""
        skate.get([identity.options(name=f"task {i}").remote(i) for i in range(count)])
        engine: Any = installed_engine()
        return len(engine._options_sent)


def local() -> Any:
    return installed_engine()


def test_options_of_workers_are_forgotten() -> None:
    submitter = Submitter.remote()
    assert skate.get(submitter.submit.remote(MANY), timeout=60) < MANY // 2
    assert all(len(worker.options) < MANY // 2 for worker in local().hub.state.workers.values())


def test_options_of_the_driver_are_forgotten() -> None:
    skate.get([identity.options(name=f"task {i}").remote(i) for i in range(MANY)], timeout=60)
    assert len(local().hub.planner._plans) < MANY


@pytest.mark.init(resources={"token": MANY})
def test_shapes_are_forgotten() -> None:
    for start in range(0, MANY, 50):
        amounts = [(i + 1) / 1000 for i in range(start, start + 50)]
        skate.get([identity.options(resources={"token": n}).remote(n) for n in amounts])
    assert len(local().hub.scheduler._shapes) < MANY


def test_functions_are_forgotten() -> None:
    for i in range(100):
        assert skate.get(skate.remote(lambda x: x).remote(i), timeout=60) == i
    assert len(local().hub.state.functions) < 50


def test_workers_forget_functions_that_are_gone() -> None:
    def known_by_workers() -> int:
        return sum(len(worker.functions) for worker in local().hub.state.workers.values())

    for i in range(100):
        skate.get(skate.remote(lambda x: x).remote(i), timeout=60)
    skate.get(identity.remote(0), timeout=60)
    assert known_by_workers() < 20

    @skate.remote
    def functions_here() -> int:
        engine: Any = installed_engine()
        return len(engine.execution.preparation._names)

    assert skate.get(functions_here.remote(), timeout=60) < 20


def test_returned_values_are_dropped_when_a_later_one_cannot_be_sent() -> None:
    import threading

    import numpy as np

    @skate.remote(num_returns=2, max_retries=0)
    def half() -> Any:
        return np.ones(1_000_000), threading.Lock()

    before = segments()
    for _ in range(5):
        with pytest.raises(TypeError):
            skate.get(half.remote(), timeout=60)
    assert segments() <= before


def test_large_arguments_of_calls_live_until_they_are_counted(monkeypatch: Any) -> None:
    import numpy as np

    @skate.remote
    class Keeper:
        def keep(self, array: Any) -> None:
            self.array = array

        def values(self) -> set[float]:
            return set(self.array)

    engine = local()
    check = engine.hub.lifecycle.check_pending_calls

    def tidy_first(actor: int) -> None:
        engine._tidy()
        check(actor)

    monkeypatch.setattr(engine.hub.lifecycle, "check_pending_calls", tidy_first)
    keepers = [Keeper.remote() for _ in range(3)]
    for number, keeper in enumerate(keepers):
        keeper.keep.remote(np.full(100_000, number))
    found = skate.get([keeper.values.remote() for keeper in keepers], timeout=60)
    assert found == [{0}, {1}, {2}]


def segments() -> int:
    import os

    return len(os.listdir(local().store._dirs["s"]))


def test_a_cancelled_task_that_a_worker_gives_back_is_answered(flag: Any) -> None:
    @skate.remote
    def wait_for(flag: Flag | None) -> None:
        if flag is not None:
            flag.wait()

    skate.get([wait_for.remote(None) for _ in range(200)])  # known to be short
    go = flag("go")
    holding = [wait_for.remote(go) for _ in range(2)]
    behind = [wait_for.remote(None) for _ in range(20)]
    engine = local()
    with engine.lock:
        for ref in behind:
            skate.cancel(ref)
        for worker in list(engine.hub.state.workers.values()):
            back = [id for id, task in worker.in_flight.items() if task.cancelled]
            engine.hub.received(worker, [encode(m.GaveBack(back))])
    for ref in behind:
        with pytest.raises(skate.exceptions.TaskCancelledError):
            skate.get(ref, timeout=60)
    go.set()
    skate.get(holding, timeout=60)


@skate.remote(num_cpus=0)
class Maker:
    def make(self, count: int) -> None:
        """Functions that come and go, each with a large object in its closure."""
        for number in range(count):
            ref = skate.put(bytes(200_000))

            @skate.remote
            def function(ref: Any = ref, number: int = number) -> int:
                return len(skate.get(ref)) + number

            assert skate.get(function.remote(), timeout=60) == 200_000 + number

    def submit(self, gate: list[Any]) -> list[Any]:
        """A task of a large function, which waits."""
        large = bytes(200_000)
        return [skate.remote(lambda opened: large.count(0) + opened).remote(gate[0])]


def test_functions_of_workers_are_forgotten_with_what_they_keep() -> None:
    maker = Maker.remote()
    skate.get(maker.make.remote(20), timeout=60)
    engine = local()
    eventually(lambda: not engine.hub.state.functions and not engine.spilling.bytes_in_memory)
    eventually(lambda: not any(worker.functions - {maker_class(maker)} for worker in workers()))


def maker_class(maker: Any) -> int:
    """The key of the actor's own class."""
    key: int = local().hub.state.actors[maker._ref._id].creation.function.key
    return key


def workers() -> list[Any]:
    return list(local().hub.state.workers.values())


def test_a_large_function_outlives_the_worker_that_made_it(flag: Any) -> None:
    @skate.remote
    def wait_for(flag: Flag) -> int:
        flag.wait()
        return 1

    go = flag("go")
    maker = Maker.remote()
    (ref,) = skate.get(maker.submit.remote([wait_for.remote(go)]), timeout=60)
    number = local().hub.state.actors[maker._ref._id].worker.number
    skate.kill(maker)
    eventually(lambda: number not in local().hub.state.workers)
    go.set()
    assert skate.get(ref, timeout=60) == 200_001
    del ref
    eventually(lambda: segments() == 0)


def test_removed_groups_are_forgotten() -> None:
    before = len(local().entries)
    for _ in range(20):
        made = placement_group([{"CPU": 1}])
        made.wait(timeout_seconds=60)
        remove_placement_group(made)
    impossible = placement_group([{"CPU": 1000}])
    with pytest.raises(skate.exceptions.TaskUnschedulableError):
        skate.get(impossible._ref, timeout=60)
    del made, impossible
    eventually(lambda: len(local().entries) <= before)


def test_arguments_of_constructors_are_freed_if_there_is_no_restart() -> None:
    import numpy as np

    @skate.remote
    class Taker:
        def __init__(self, large: bytes, inside: list[Any]) -> None:
            self.size = len(large) + len(skate.get(inside[0]))

        def total(self) -> int:
            return self.size

    @skate.remote
    class Keeper:
        def __init__(self, array: Any) -> None:
            self.array = array

        def sum(self) -> float:
            return float(self.array.sum())

    def stored() -> int:
        engine = local()
        engine.collect()
        return int(engine.spilling.bytes_in_memory)

    def make(**options: Any) -> Any:
        large, inside = skate.put(bytes(200_000)), skate.put(bytes(200_000))
        taker = Taker.options(**options).remote(large, [inside])
        assert skate.get(taker.total.remote(), timeout=60) == 400_000
        return taker

    taker = make()
    eventually(lambda: stored() == 0)
    keeper = Keeper.remote(np.ones(50_000))
    assert skate.get(keeper.sum.remote(), timeout=60) == 50_000
    skate.put(np.zeros(50_000))
    assert skate.get(keeper.sum.remote(), timeout=60) == 50_000
    skate.kill(keeper)
    another = make(max_restarts=1)
    skate.kill(another, no_restart=False)
    assert skate.get(another.total.options(max_task_retries=-1).remote(), timeout=60) == 400_000
    eventually(lambda: stored() == 0)
    assert skate.get(taker.total.remote(), timeout=60) == 400_000


@pytest.fixture
def no_garbage_collection() -> Iterator[None]:
    """Programs that measure or train turn it off."""
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def entries_alive() -> int:
    return sum(type(each) is ObjectEntry for each in gc.get_objects())


@pytest.mark.usefixtures("no_garbage_collection")
@pytest.mark.parametrize(
    "use",
    [
        lambda: skate.get(identity.remote(1), timeout=60),
        lambda: skate.get(skate.put(1)),
        lambda: skate.wait([identity.remote(identity.remote(1))], timeout=60),
        lambda: identity.remote(1).future().result(timeout=60),
    ],
    ids=["task", "put", "wait", "future"],
)
def test_objects_go_without_the_garbage_collector(use: Callable[[], object]) -> None:
    use()
    before = entries_alive()
    for _ in range(100):
        use()
    eventually(lambda: entries_alive() < before + 10)
