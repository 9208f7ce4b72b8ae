"""What the state API says of objects: who holds them, how large they are, whether they wait."""

from __future__ import annotations

import os
from typing import Any

from skate.engine.local import messages as m
from skate.engine.local.hub.object_rows import all_object_rows
from skate.engine.local.objects import FAILED, STORED, ObjectEntry
from tests.local.hub_bench import HubBench


def row_of(hub_bench: HubBench, entry: ObjectEntry) -> dict[str, Any]:
    wanted = f"{entry.id:056x}"
    return next(row for row in all_object_rows(hub_bench.hub.state) if row["object_id"] == wanted)


def test_an_object_is_held_by_the_driver_by_a_worker_or_by_another_object(
    hub_bench: HubBench,
) -> None:
    driver, worker, inside = (hub_bench.put() for _ in range(3))
    driver.held = True
    task = hub_bench.submit()
    assert task.worker is not None
    task.worker.pid = 100
    hub_bench.receive(task.worker, m.Hold([worker.id]))
    said = [row_of(hub_bench, entry) for entry in (driver, worker, inside)]
    assert [(row["type"], row["pid"], row["reference_type"]) for row in said] == [
        ("DRIVER", os.getpid(), "LOCAL_REFERENCE"),
        ("WORKER", 100, "LOCAL_REFERENCE"),
        ("DRIVER", os.getpid(), "CAPTURED_IN_OBJECT"),
    ]


def test_an_object_that_a_task_waits_for_is_used_by_it(hub_bench: HubBench) -> None:
    pending = hub_bench.put(kind=None)
    task = hub_bench.submit(pending)
    result = hub_bench.entries[task.id]
    assert row_of(hub_bench, pending)["reference_type"] == "USED_BY_PENDING_TASK"
    assert row_of(hub_bench, pending)["task_status"] == "NIL"  # nobody makes it
    assert row_of(hub_bench, result)["task_status"] == "PENDING_ARGS_AVAIL"
    assert row_of(hub_bench, result)["attempt_number"] == 0


def test_sizes_are_those_of_the_bytes_wherever_they_are(hub_bench: HubBench) -> None:
    plain = hub_bench.put(data=b"12345")
    buffers = hub_bench.put(data=(b"123", b"4567"))
    stored = hub_bench.put(kind=STORED, data=("s1", 1000))
    spilled = hub_bench.put(kind=STORED, data=("d1", 2000))
    failed = hub_bench.put(kind=FAILED, data=b"error")
    pending = hub_bench.put(kind=None, data=None)
    rows = [row_of(hub_bench, one) for one in (plain, buffers, stored, spilled, failed, pending)]
    assert [row["object_size"] for row in rows] == [5, 7, 1000, 2000, 5, 0]
    assert [row["spilled"] for row in rows] == [False, False, False, True, False, False]
    assert [row["task_status"] for row in rows[:5]] == [*["FINISHED"] * 4, "FAILED"]
