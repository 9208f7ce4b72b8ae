"""What has happened in a session since somebody last looked."""

from __future__ import annotations

from typing import Any

from skate._core import serialization
from skate.engine.local.hub import news
from skate.engine.local.hub.state import SessionFacts
from skate.engine.local.objects import FAILED
from tests.local.hub_bench import HubBench

INFO = SessionFacts("default", "01", "here", {}, {}, {})


def told(hub_bench: HubBench, ended: int = 0, failed: int = 0, gone: int = 0) -> dict[str, Any]:
    return news.told(news.gathered(INFO, hub_bench.hub, ended, failed, gone))


def run(hub_bench: HubBench, count: int, **options: Any) -> None:
    for _ in range(count):
        hub_bench.finish(hub_bench.submit(**options))


def fail(hub_bench: HubBench, text: str) -> None:
    error = serialization.dumps(ValueError(text)).packed()
    hub_bench.finish(hub_bench.submit(max_retries=0), FAILED, error)


def test_only_what_is_new(hub_bench: HubBench) -> None:
    run(hub_bench, 3)
    first = told(hub_bench)
    assert (first["ended"], len(first["tasks"])) == (3, 3)
    assert [row[0] for row in first["tasks"]] == ["f", "f", "f"]
    assert told(hub_bench, ended=3)["tasks"] == []
    run(hub_bench, 2)
    assert len(told(hub_bench, ended=3)["tasks"]) == 2


def test_of_many_tasks_the_last_ones_and_all_that_failed(hub_bench: HubBench) -> None:
    fail(hub_bench, "early")
    run(hub_bench, news._MOST_TASKS + 100)
    found = told(hub_bench)
    assert found["ended"] == news._MOST_TASKS + 101
    assert len(found["tasks"]) == news._MOST_TASKS
    assert [row[4] for row in found["tasks"]].count(True) == 1


def test_more_than_are_remembered(hub_bench: HubBench) -> None:
    remembered = hub_bench.hub.state.runs.maxlen
    assert remembered is not None
    run(hub_bench, remembered + 5)
    found = told(hub_bench, ended=1)
    assert found["ended"] == remembered + 5
    assert len(found["tasks"]) == news._MOST_TASKS


def test_errors(hub_bench: HubBench) -> None:
    fail(hub_bench, "first")
    fail(hub_bench, "x" * 50_000)
    found = told(hub_bench)
    assert (found["failed"], len(found["failures"])) == (2, 2)
    first, long = found["failures"]
    assert (first["name"], first["error_message"]) == ("f", "first")
    assert len(long["error_message"]) == news._MOST_ERROR_CHARACTERS + 1
    assert told(hub_bench, failed=2)["failures"] == []
    again = told(hub_bench, ended=2, failed=1)["failures"]
    assert [row["name"] for row in again] == [None]  # its task was told before


def test_what_there_is_now(hub_bench: HubBench) -> None:
    tasks = [hub_bench.submit(name="mine") for _ in range(2)] + [hub_bench.submit(num_cpus=2)]
    for worker in hub_bench.workers:
        worker.pid = 100 + worker.number
    found = told(hub_bench)
    assert found["queued"] == 1
    assert found["sent"] == 2
    assert [row["name"] for row in found["running"]] == ["mine", "mine"]
    assert len(found["workers"]) == 2
    assert (found["resources"]["CPU"], found["available"].get("CPU", 0)) == (2, 0)
    assert not any(hub_bench.is_done(task.id) for task in tasks)


def test_actors_that_are_gone(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(name="one")
    hub_bench.finish(actor.creation)
    assert [row["name"] for row in told(hub_bench)["actors"]] == ["one"]
    hub_bench.hub.lifecycle.kill(actor, True)
    hub_bench.lose(hub_bench.workers[0])
    found = told(hub_bench)
    assert (found["gone"], found["actors"]) == (1, [])
    (row,) = found["ended_actors"]
    assert "killed" in row["death_cause"]["actor_died_error_context"]["error_message"]
    assert told(hub_bench, gone=1)["ended_actors"] == []


def test_the_drawing_of_waits(hub_bench: HubBench) -> None:
    first = hub_bench.submit()
    entry = hub_bench.entries[first.id]
    second = hub_bench.submit(entry)
    found = hub_bench.hub.waits.drawing([hub_bench.entries[second.id]])
    assert [node["name"] for node in found["nodes"]] == ["f", "f"]
    assert found["driver_waits_for"] == [0]
    assert found["edges"] == [[0, 1]]
    assert found["nodes"][0]["cause"] == "arguments"
    assert not any(node["deadlock"] for node in found["nodes"])
