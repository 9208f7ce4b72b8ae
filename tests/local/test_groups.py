"""Placement groups: all bundles or none."""

from __future__ import annotations

import pytest

from skate.engine.local.hub.groups import HubGroup
from skate.engine.local.hub.resources import ResourcePool, to_units
from tests.local.fakes import Machine, function, worker_of


def group(*bundles: dict[str, float], strategy: str = "PACK") -> HubGroup:
    return HubGroup(7, bundles, strategy, "g")


def machine(**amounts: float) -> ResourcePool:
    return ResourcePool(to_units(amounts))


def test_reserves_all_bundles_or_none() -> None:
    three = machine(CPU=3)
    large = group({"CPU": 2}, {"CPU": 2})
    assert not large.reserve(three)
    assert large.state == "PENDING"
    assert three.free == three.total
    fitting = group({"CPU": 2}, {"CPU": 1})
    assert fitting.reserve(three)
    assert fitting.state == "CREATED"
    assert three.free["CPU"] == 0
    fitting.give_back(three)
    assert fitting.state == "REMOVED"
    assert three.free == three.total


def test_bundles_are_pools_of_their_own() -> None:
    four = machine(CPU=4, GPU=2)
    made = group({"CPU": 2, "GPU": 1}, {"CPU": 1, "GPU": 1})
    assert made.reserve(four)
    second = made.take(to_units({"CPU": 1, "GPU": 1}), 1)
    assert second is not None
    assert second.numbers("GPU") == (1,)
    assert made.take(to_units({"CPU": 1}), 1) is None
    anywhere = made.take(to_units({"CPU": 2}), -1)
    assert anywhere is not None
    assert anywhere.pool is made.pools[0]
    assert made.take(to_units({"CPU": 1}), -1) is None


def test_a_part_of_a_gpu_stays_that_gpu() -> None:
    one = machine(GPU=1)
    halves = group({"GPU": 0.5}, {"GPU": 0.5})
    assert halves.reserve(one)
    taken = [halves.take(to_units({"GPU": 0.5}), index) for index in (0, 1)]
    assert [part.numbers("GPU") for part in taken if part] == [(0,), (0,)]


def test_what_fits_no_single_bundle_never_will() -> None:
    made = group({"CPU": 2}, {"CPU": 1, "x": 1})
    assert made.could_ever_fit(to_units({"CPU": 2}), -1)
    assert not made.could_ever_fit(to_units({"CPU": 2}), 1)
    assert not made.could_ever_fit(to_units({"CPU": 2, "x": 1}), -1)


@pytest.mark.parametrize(
    ("strategy", "cpus", "reason"),
    [
        ("STRICT_SPREAD", 8, "STRICT_SPREAD wants 2 machines"),
        ("PACK", 1, "more than this machine has"),
        ("STRICT_PACK", 2, None),
        ("SPREAD", 2, None),
    ],
)
def test_why_a_group_is_impossible(strategy: str, cpus: int, reason: str | None) -> None:
    told = group({"CPU": 1}, {"CPU": 1}, strategy=strategy).why_impossible(machine(CPU=cpus))
    assert reason is None if told is None else reason is not None and reason in told


def test_a_pending_group_is_ready_when_its_resources_are_free() -> None:
    here = Machine(cpus=1)
    (task,) = here.submit(here.shape(), function())
    waiting = group({"CPU": 1})
    here.scheduler.groups[waiting.id] = waiting
    here.scheduler.dispatch_all()
    assert waiting.state == "PENDING"
    here.finish(task)
    assert here.effects.ready_groups == [waiting]
    assert here.pool.free["CPU"] == 0


def test_tasks_of_a_group_wait_for_it_and_run_inside() -> None:
    here = Machine(cpus=2)
    made = group({"CPU": 1})
    here.scheduler.groups[made.id] = made
    shape = here.scheduler.shape(to_units({"CPU": 1}), (), made, 0)
    first, second = here.submit(shape, function(), 2)
    assert here.sent == []
    here.scheduler.dispatch_all()
    assert here.sent == [first]
    allocation = worker_of(first).allocation
    assert allocation is not None
    assert allocation.pool is made.pools[0]
    here.finish(first)
    assert here.sent == [first, second]


def test_dropped_shapes_give_their_tasks_to_the_caller() -> None:
    here = Machine()
    made = group({"CPU": 1})
    inside = here.scheduler.shape(to_units({"CPU": 1}), (), made, 0)
    tasks = here.submit(inside, function(), 3)
    assert here.scheduler.drop_shapes(lambda shape: shape.group is made) == tasks
    assert here.scheduler.drop_shapes(lambda shape: shape.group is made) == []
