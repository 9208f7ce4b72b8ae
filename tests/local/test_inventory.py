"""What the hub says of tasks and processes, on fakes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from skate.engine.local.hub import inventory
from skate.engine.local.hub.state import SessionFacts
from tests.local.hub_bench import HubBench

INFO = SessionFacts("default", "01", "here", {}, {}, {})


def test_reasons_of_ends_name_the_library_that_the_program_imports(
    hub_bench: HubBench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("skate.exceptions.library_name", lambda: "ray")
    actor = hub_bench.create_actor()
    hub_bench.finish(actor.creation)
    (worker,) = hub_bench.workers
    worker.pid = 100
    hub_bench.hub.lifecycle.kill(actor, True)
    hub_bench.lose(worker)
    (_, row) = inventory.rows(INFO, hub_bench.hub.state, "workers")
    assert row["exit_detail"] == "it was killed by `ray.kill`"


def test_a_task_runs_when_its_process_is_there_and_has_a_number_from_then_on(
    hub_bench: HubBench,
) -> None:
    """`os.kill(row.worker_pid, ...)` with 0 would end the process group of whoever looks."""
    task = hub_bench.submit()
    (row,) = inventory.rows(INFO, hub_bench.hub.state, "tasks")
    assert (row["state"], row["worker_pid"]) == ("SUBMITTED_TO_WORKER", None)
    (worker,) = inventory.rows(INFO, hub_bench.hub.state, "live_workers")
    assert (worker["pid"], worker["runs"]) == (None, [])
    assert task.worker is not None
    task.worker.pid = 100
    (row,) = inventory.rows(INFO, hub_bench.hub.state, "tasks")
    assert (row["state"], row["worker_pid"]) == ("RUNNING", 100)


def test_why_a_task_failed_may_be_unknown_or_unreadable() -> None:
    assert inventory.failure_row(None)["error_message"] is None
    row = inventory.failure_row(b"no pickle")
    assert row["error_message"].startswith("it cannot be unpickled: ")


class Listed(dict[int, Any]):
    """Counts how often somebody goes through it."""

    walks = 0

    def __iter__(self) -> Iterator[int]:
        self.walks += 1
        return super().__iter__()


def test_calls_of_an_actor_are_gone_through_once(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(max_concurrency=2)
    hub_bench.finish(actor.creation)
    (worker,) = hub_bench.workers
    worker.pid = 100
    calls = [hub_bench.call(actor) for _ in range(4)]
    worker.in_flight = in_flight = Listed(worker.in_flight)
    rows = inventory.rows(INFO, hub_bench.hub.state, "tasks")
    waits = "PENDING_ACTOR_TASK_ORDERING_OR_CONCURRENCY"
    assert [row["state"] for row in rows if row["state"] != "FINISHED"] == [
        "RUNNING", "RUNNING", waits, waits,
    ]  # fmt: skip
    assert in_flight.walks == 1
    assert [hub_bench.ask("has_begun", call.id) for call in calls] == [True, True, False, False]


def test_whether_a_task_has_begun(hub_bench: HubBench) -> None:
    missing = hub_bench.put(None)
    waiting, first = hub_bench.submit(missing), hub_bench.submit()
    assert first.worker is not None
    first.worker.pid = 100
    assert not hub_bench.ask("has_begun", waiting.id)
    assert hub_bench.ask("has_begun", first.id)
    hub_bench.finish(first)
    assert hub_bench.ask("has_begun", first.id)
    assert hub_bench.ask("has_begun", 12345)
    waiting.attempt = 1
    assert hub_bench.ask("has_begun", waiting.id)
