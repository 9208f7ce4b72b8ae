"""What ran when, as the hub remembers it."""

from __future__ import annotations

import os
from typing import Any

from skate.engine.local import messages as m
from skate.engine.local.hub.timeline import events
from tests.local.hub_bench import HubBench


def test_tasks_and_spans_stand_in_the_row_of_their_process(hub_bench: HubBench) -> None:
    task = hub_bench.submit()
    hidden = hub_bench.submit(listed=False)
    for worker, pid in zip(hub_bench.workers, (100, 200), strict=True):
        worker.pid = pid
    worker = task.worker
    assert worker is not None
    hub_bench.receive(worker, m.RecordSpan("load", 7.0, 30, {"rows": 2}))
    hub_bench.finish(task)
    hub_bench.finish(hidden)
    hub_bench.hub.state.spans.append(("plan", 6.0, 10, {}, os.getpid()))

    names: dict[int, str] = {}
    found: dict[str, dict[str, Any]] = {}
    for event in events(hub_bench.hub.state):
        if event["ph"] == "M":
            names[event["tid"]] = event["args"]["name"]
        else:
            found[event["name"]] = event
    assert names == {
        0: f"skate, driver {os.getpid()}",
        100: "worker 100",
        os.getpid(): f"driver {os.getpid()}",
    }
    assert {name: event["tid"] for name, event in found.items()} == {
        "f": 100,
        "load": 100,
        "plan": os.getpid(),
    }
    assert found["f"]["dur"] == 5
    assert not found["f"]["args"]["failed"]
    assert (found["load"]["ts"], found["load"]["args"]) == (7e6, {"rows": 2})
