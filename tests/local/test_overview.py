"""What a session has and who holds it, without processes."""

from __future__ import annotations

from skate.engine.local import messages as m
from skate.engine.local.hub import overview
from skate.engine.local.objects import INLINE, STORED
from tests.local.fakes import worker_of
from tests.local.hub_bench import HubBench


def test_who_made_and_who_holds_each_object(hub_bench: HubBench) -> None:
    here, spilled = hub_bench.put(data=b"four"), hub_bench.put(STORED, ("d0-1", 30))
    here.held = True
    spilled.contained = (here.id,)
    task = hub_bench.submit(here)
    worker = worker_of(task)
    other = hub_bench.submit(num_returns=2)
    values = [(INLINE, b"first", ()), (INLINE, b"", ())]
    hub_bench.receive(worker_of(other), m.WorkResults(other.id, values, 5))
    hub_bench.receive(worker, m.Hold((other.id,)))
    rows = {row["object_id"]: row for row in overview.memory(hub_bench.hub.state)}
    assert [row["size"] for row in rows.values()] == [30, 5, 4]
    first = rows[f"{here.id:056x}"]
    assert (first["made_by"], first["where"]) == ("put in the driver", "memory")
    assert first["held_by"] == ["driver", f"object {spilled.id:x}", "argument of f"]
    assert rows[f"{spilled.id:056x}"]["where"] == "disk"
    made = rows[f"{other.id:056x}"]
    assert (made["made_by"], made["held_by"]) == ("f", [f"pid {worker.pid}"])


def test_what_workers_have_put(hub_bench: HubBench) -> None:
    worker = worker_of(hub_bench.submit())
    for process in (worker.number, 12345):
        entry = hub_bench.put(data=b"x")
        hub_bench.entries[process << 64 | 1] = entry
        entry.id = process << 64 | 1
    made = {row["made_by"] for row in overview.memory(hub_bench.hub.state)}
    assert made == {f"put in pid {worker.pid}", "put in a worker that has ended"}


def test_the_summary(hub_bench: HubBench) -> None:
    hub_bench.put(data=b"four")
    hub_bench.put(STORED, ("d0-1", 30))
    hub_bench.submit()
    hub = hub_bench.hub
    found = overview.summary(hub._info, hub.state)
    assert (found["object_bytes"], found["spilled_bytes"]) == (4, 30)
    assert sum(found["tasks"].values()) == 1
