"""Why an object is not there, as the hub knows it and as workers say, without processes."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from skate.engine.local import messages as m
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.work import HubTask
from skate.engine.local.hub.workers import WorkerProcess
from skate.engine.local.objects import INLINE
from tests.local.fakes import worker_of
from tests.local.hub_bench import HubBench

NOBODY = 1 << 23  # higher than any pid


def started(task: HubTask) -> WorkerProcess:
    """The worker of a task, with a process that the system has not."""
    worker = worker_of(task)
    worker.pid = NOBODY + worker.number
    return worker


def why(bench: HubBench, id: int) -> dict[str, Any]:
    (row,) = bench.ask("waits", [id])
    return dict(row)


def make_group(bench: HubBench, cpus: float, name: str = "") -> int:
    entry = bench.put(None)
    bench.ask("create_group", entry.id, [{"CPU": cpus}], "PACK", name, False, [])
    return entry.id


def inside(id: int) -> dict[str, Any]:
    return {"placement_group": SimpleNamespace(_ref=SimpleNamespace(_id=id)), "num_cpus": 1}


def test_a_process_has_not_started(hub_bench: HubBench) -> None:
    assert why(hub_bench, hub_bench.submit().id)["cause"] == "starting"


def test_what_is_there_or_unknown_has_no_row(hub_bench: HubBench) -> None:
    there = hub_bench.put()
    assert hub_bench.ask("waits", [there.id, 12345]) == []


def test_an_object_of_which_nothing_is_known(hub_bench: HubBench) -> None:
    assert why(hub_bench, hub_bench.put(None).id)["text"] == "an object is not there"


def test_a_value_that_a_worker_has_promised(hub_bench: HubBench) -> None:
    worker, promised = started(hub_bench.submit()), hub_bench.put(None)
    worker.promised.add(promised.id)
    text = why(hub_bench, promised.id)["text"]
    assert text == f"a value of process {worker.pid} is not there"


def test_arguments_that_are_not_there(hub_bench: HubBench) -> None:
    first = hub_bench.submit()
    row = why(hub_bench, hub_bench.submit(hub_bench.entries[first.id]).id)
    assert (row["cause"], row["waits_for"]) == ("arguments", ["f"])


def test_a_task_needs_what_others_hold(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    worker = started(bench.submit(num_cpus=1))
    row = why(bench, bench.submit(num_cpus=1).id)
    assert row["cause"] == "resources"
    assert [(holder["name"], holder["pid"]) for holder in row["holders"]] == [("f", worker.pid)]


def test_a_group_needs_what_others_and_other_groups_hold(hub_bench: HubBench) -> None:
    started(hub_bench.submit())
    make_group(hub_bench, 1, "small")
    make_group(hub_bench, 0)  # which has nothing of what is lacking
    waiting = make_group(hub_bench, 2, "large")
    row = why(hub_bench, waiting)
    assert row["name"] == "placement group 'large'"
    assert [holder["name"] for holder in row["holders"]] == ["f", "placement group 'small'"]
    task = why(hub_bench, hub_bench.submit(**inside(waiting)).id)
    assert "waits for its placement group" in task["text"]


def test_of_many_holders_a_few_are_named() -> None:
    bench = HubBench(cpus=20)
    for _ in range(19):
        started(bench.submit(num_cpus=1))
    make_group(bench, 1, "last")
    row = why(bench, bench.submit(num_cpus=20).id)
    assert 0 < len(row["holders"]) < 19
    assert {holder["name"] for holder in row["holders"]} == {"f"}
    bench.close()


def test_a_task_in_a_group_that_is_full(hub_bench: HubBench) -> None:
    group = make_group(hub_bench, 1)
    first = hub_bench.submit(**inside(group))
    started(first)
    row = why(hub_bench, hub_bench.submit(**inside(group)).id)
    assert (row["cause"], row["waits_for"]) == ("resources", ["f"])


def test_an_actor_that_is_idle_holds_what_a_task_needs(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    actor = bench.create_actor(num_cpus=1, name="idler")
    worker_of(actor.creation).pid = NOBODY
    bench.finish(actor.creation)
    row = why(bench, bench.submit().id)
    assert row["holders"][0]["name"] == "actor A 'idler'"
    assert row["holders"][0]["idle"]
    assert ", idle, has held CPU: 1" in row["text"]


def test_calls_of_an_actor_that_has_no_place(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    bench.submit()
    actor, missing = bench.create_actor(num_cpus=1), bench.put(None)
    first = bench.call(actor)
    assert "waits until actor A has started" in why(bench, first.id)["text"]
    held_up = bench.call(actor, missing)
    behind = why(bench, bench.call(actor).id)
    assert (behind["cause"], behind["waits_for"]) == ("queue", [held_up.name])


def test_what_a_worker_says_of_its_waits(hub_bench: HubBench) -> None:
    actor, task = hub_bench.create_actor(max_restarts=1), hub_bench.submit()
    hub_bench.finish(actor.creation)
    worker, callee, call = started(task), actor.worker, hub_bench.new_id()
    assert callee is not None
    callee.pid = NOBODY
    tells = m.TellWaits([(task.id, "f", "a.py:1", "")], [(0, [call])], [(call, actor.id, "go")])
    hub_bench.receive(worker, tells)
    row = why(hub_bench, task.id)
    assert (row["cause"], row["where"], row["waits_for"]) == ("waiting", "a.py:1", ["A.go"])
    assert f"A.go runs in process {callee.pid}" in row["text"]
    hub_bench.lose(callee)
    assert actor.worker is not None  # it is restarted, and has no process yet
    hub_bench.receive(worker, tells)
    assert "A.go waits for a process to start" in why(hub_bench, task.id)["text"]


def test_a_call_to_an_actor_that_waits_for_its_next_place(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    actor = bench.create_actor(max_restarts=1, num_cpus=1)
    bench.finish(actor.creation)
    lost = actor.worker
    assert lost is not None
    task = bench.submit(num_cpus=0)
    worker, call = started(task), bench.new_id()
    blocked = bench.submit(num_cpus=1)
    bench.lose(lost)
    assert blocked.worker is not None
    assert actor.worker is None
    tells = m.TellWaits([(task.id, "f", "", "")], [(0, [call])], [(call, actor.id, "go")])
    bench.receive(worker, tells)
    assert "A.go waits until actor A has started" in why(bench, task.id)["text"]


def test_a_value_that_only_another_worker_knows_of(hub_bench: HubBench) -> None:
    task = hub_bench.submit()
    worker = started(task)
    hub_bench.receive(worker, m.TellWaits([(task.id, "f", "", "")], [(0, [12345])], []))
    assert why(hub_bench, task.id)["waits_for"] == [f"a value of process {worker.pid}"]


def test_what_is_behind_something_else_in_its_process(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    bench.function.window = 8
    first, second = bench.submit(), bench.submit()
    worker = started(first)
    row = why(bench, second.id)
    assert (row["cause"], row["waits_for"]) == ("queue", ["f"])
    assert row["text"].startswith(f"f is behind f in process {worker.pid}")
    unknown = bench.new_id()  # a call that came directly
    bench.receive(worker, m.TellWaits([(unknown, "A.go", "", "reads a file")], [], []))
    row = why(bench, second.id)
    assert row["waits_for"] == ["A.go"]
    assert "reads a file" in row["text"]


def test_workers_that_wait_for_each_other(hub_bench: HubBench) -> None:
    first, second = hub_bench.submit(), hub_bench.submit()
    for task, other in ((first, second), (second, first)):
        started(task).waits[1] = [other.id]
    row = why(hub_bench, first.id)
    assert row["deadlock"] == ["f", "f"]
    assert row["text"].startswith("deadlock: ")


def test_a_stream_is_paused_until_its_items_are_taken(hub_bench: HubBench) -> None:
    task = hub_bench.submit(num_returns="streaming", backpressure=1)
    worker = started(task)
    item = m.StreamItem(task.id, 0, hub_bench.new_id(), INLINE, NONE, ())
    hub_bench.receive(worker, item)
    assert why(hub_bench, task.id)["cause"] == "backpressure"


def test_a_worker_that_does_not_answer(hub_bench: HubBench) -> None:
    task = hub_bench.submit()
    worker = started(task)
    hub_bench.hub.waits.ask()
    assert m.AskWaits() in hub_bench.sent(worker)
    assert why(hub_bench, task.id)["cause"] == "silent"
