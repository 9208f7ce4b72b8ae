"""What a session keeps does not grow with how long it has been used."""

from __future__ import annotations

from typing import Any

import pytest

import skate
from skate.engine import installed_engine
from skate.engine.local import messages as m
from tests.support import Flag, local_only

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
    assert all(len(worker.options) < MANY // 2 for worker in local().processes.workers.values())


def test_options_of_the_driver_are_forgotten() -> None:
    skate.get([identity.options(name=f"task {i}").remote(i) for i in range(MANY)], timeout=60)
    assert len(local().planner._plans) < MANY


@pytest.mark.init(resources={"token": MANY})
def test_shapes_are_forgotten() -> None:
    for start in range(0, MANY, 50):
        amounts = [(i + 1) / 1000 for i in range(start, start + 50)]
        skate.get([identity.options(resources={"token": n}).remote(n) for n in amounts])
    assert len(local().hub.scheduler._shapes) < MANY


def test_functions_are_forgotten() -> None:
    for i in range(100):
        assert skate.get(skate.remote(lambda x: x).remote(i), timeout=60) == i
    assert len(local().hub.functions) < 50


def test_workers_forget_functions_that_are_gone() -> None:
    def known_by_workers() -> int:
        return sum(len(worker.functions) for worker in local().processes.workers.values())

    for i in range(100):
        skate.get(skate.remote(lambda x: x).remote(i), timeout=60)
    skate.get(identity.remote(0), timeout=60)
    assert known_by_workers() < 20

    @skate.remote
    def functions_here() -> int:
        engine: Any = installed_engine()
        return len(engine.execution._functions)

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
    check = engine.hub.check_pending_calls

    def tidy_first(actor: int) -> None:
        engine._tidy()
        check(actor)

    monkeypatch.setattr(engine.hub, "check_pending_calls", tidy_first)
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
        for worker in list(engine.processes.workers.values()):
            back = [id for id, task in worker.in_flight.items() if task.cancelled]
            engine.hub.received(worker, [(m.GAVE_BACK, back)])
    for ref in behind:
        with pytest.raises(skate.exceptions.TaskCancelledError):
            skate.get(ref, timeout=60)
    go.set()
    skate.get(holding, timeout=60)
