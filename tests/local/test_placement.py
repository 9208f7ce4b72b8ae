"""Placement groups with what waits and runs in them, without processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from skate import exceptions
from skate.engine.local.hub.actors import DEAD
from skate.engine.local.hub.workers import WorkerProcess
from skate.engine.local.objects import INLINE
from tests.local.fakes import worker_of
from tests.local.hub_bench import HubBench


def make_group(bench: HubBench, cpus: float = 1, name: str = "") -> int:
    entry = bench.put(None)
    bench.ask("create_group", entry.id, [{"CPU": cpus}], "PACK", name, False, [])
    return entry.id


def inside(id: int) -> dict[str, Any]:
    return {"placement_group": SimpleNamespace(_ref=SimpleNamespace(_id=id)), "num_cpus": 1}


def test_a_group_is_ready_when_its_resources_are_there(hub_bench: HubBench) -> None:
    tasks = [hub_bench.submit() for _ in range(2)]
    id = make_group(hub_bench, name="g")
    assert not hub_bench.is_done(id)
    hub_bench.finish(tasks[0])
    assert hub_bench.entries[id].kind == INLINE
    assert hub_bench.ask("find_group", "g") == (id, [{"CPU": 1}])
    (row,) = hub_bench.ask("group_table").values()
    assert (row["state"], row["bundles_to_node_id"]) == ("CREATED", {0: "here"})


def test_groups_that_cannot_be(hub_bench: HubBench) -> None:
    id = make_group(hub_bench, cpus=64)
    error = hub_bench.error_of(id)
    assert isinstance(error, exceptions.TaskUnschedulableError)
    assert "skate.init(num_cpus=64)" in str(error)
    make_group(hub_bench, name="g")
    with pytest.raises(ValueError, match="'g' exists already"):
        make_group(hub_bench, name="g")
    with pytest.raises(ValueError, match=r"named groups: \['g'\]"):
        hub_bench.ask("find_group", "other")


def test_more_of_the_machine_would_not_help_bundles_that_must_be_apart(
    hub_bench: HubBench,
) -> None:
    entry = hub_bench.put(None)
    bundles = [{"CPU": 1}, {"CPU": 1}]
    hub_bench.ask("create_group", entry.id, bundles, "STRICT_SPREAD", "apart", False, [])
    error = str(hub_bench.error_of(entry.id))
    assert "placement group apart: " in error
    assert "skate.init" not in error


def test_what_is_in_a_group_ends_with_it(hub_bench: HubBench) -> None:
    id = make_group(hub_bench)
    running = hub_bench.submit(**inside(id))
    waiting = hub_bench.submit(**inside(id))
    worker = worker_of(running)
    hub_bench.ask("remove_group", id)
    for task in (running, waiting):
        assert isinstance(hub_bench.error_of(task.id), exceptions.TaskPlacementGroupRemoved)
    assert worker.ending == "killed"
    hub_bench.lose(worker)
    assert hub_bench.ask("available_resources")["CPU"] == 2
    assert [row["state"] for row in hub_bench.ask("group_table").values()] == ["REMOVED"]
    hub_bench.ask("remove_group", id)  # again: nothing to do


def test_a_group_that_waits_is_removed(hub_bench: HubBench) -> None:
    running = [hub_bench.submit() for _ in range(2)]
    id = make_group(hub_bench)
    task, actor = hub_bench.submit(**inside(id)), hub_bench.create_actor(**inside(id))
    hub_bench.ask("remove_group", id)
    assert isinstance(hub_bench.error_of(task.id), exceptions.TaskPlacementGroupRemoved)
    died = hub_bench.error_of(hub_bench.call(actor).id)
    assert isinstance(died, exceptions.ActorPlacementGroupRemoved)
    for each in running:
        hub_bench.finish(each)
    assert hub_bench.ask("available_resources")["CPU"] == 2


def test_an_actor_in_a_group_ends_with_it(hub_bench: HubBench) -> None:
    id = make_group(hub_bench)
    actor = hub_bench.create_actor(**inside(id), max_restarts=-1)
    hub_bench.finish(actor.creation)
    worker = actor.worker
    assert worker is not None
    hub_bench.ask("remove_group", id)
    hub_bench.lose(worker)
    assert actor.state == DEAD
    error = hub_bench.error_of(hub_bench.call(actor).id)
    assert "placement group was removed" in str(error)


@pytest.mark.parametrize(
    ("status", "last_words", "removed"),
    [(0, "exit_actor()", False), (0, "", True), (9, "", True)],
)
def test_groups_of_an_actor_that_is_killed_go_with_it(
    hub_bench: HubBench, status: int, last_words: str, removed: bool
) -> None:
    actor = hub_bench.create_actor()
    worker: WorkerProcess | None = actor.worker
    assert worker is not None
    id = hub_bench.new_id()
    hub_bench.ask_as(worker, "create_group", id, [{"CPU": 1}], "PACK", "made", False, [])
    assert hub_bench.ask_as(worker, "find_group", "made") == (id, [{"CPU": 1}])
    worker.last_words = last_words
    hub_bench.lose(worker, status)
    assert (id not in hub_bench.hub.state.groups) == removed
