"""Items between the worker that yields them and their consumer, without processes."""

from __future__ import annotations

import pytest

from skate import exceptions
from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.work import HubTask
from skate.engine.local.objects import FAILED, INLINE, STORED
from tests.local.fakes import worker_of
from tests.local.hub_bench import HubBench


def yield_item(bench: HubBench, task: HubTask, position: int, kind: int = INLINE) -> int:
    id = bench.new_id()
    data = NONE if kind == INLINE else (f"s0-{position}", 1)
    bench.receive(worker_of(task), m.StreamItem(task.id, position, id, kind, data, ()))
    return id


def test_items_are_taken_in_order_and_the_producer_is_told(hub_bench: HubBench) -> None:
    task = hub_bench.submit(num_returns="streaming", backpressure=2)
    worker, entry = worker_of(task), hub_bench.entries[task.id]
    ids = [yield_item(hub_bench, task, position) for position in range(2)]
    hub_bench.sent(worker)
    take = hub_bench.hub.streaming.take
    assert [take(entry, position) for position in range(3)] == [*ids, None]
    assert hub_bench.sent(worker) == [m.GrantCredit(task.id, 1), m.GrantCredit(task.id, 2)]


def test_what_a_retried_task_yields_again_is_thrown_away(hub_bench: HubBench) -> None:
    task = hub_bench.submit(num_returns="streaming", max_retries=1)
    entry = hub_bench.entries[task.id]
    yield_item(hub_bench, task, 0)
    hub_bench.hub.streaming.take(entry, 0)
    hub_bench.lose(worker_of(task))
    hub_bench.sent(worker_of(task))
    yield_item(hub_bench, task, 0, STORED)
    assert hub_bench.store.recycled == ["s0-0"]
    assert hub_bench.sent(worker_of(task)) == [m.GrantCredit(task.id, 1)]


def test_a_retried_task_is_told_nothing_of_a_consumer_who_has_taken_nothing(
    hub_bench: HubBench,
) -> None:
    task = hub_bench.submit(num_returns="streaming", max_retries=1)
    yield_item(hub_bench, task, 0)
    hub_bench.lose(worker_of(task))
    hub_bench.sent(worker_of(task))
    yield_item(hub_bench, task, 0, STORED)
    assert hub_bench.store.recycled == ["s0-0"]
    assert hub_bench.sent(worker_of(task)) == []


def test_an_error_is_the_last_item(hub_bench: HubBench) -> None:
    task = hub_bench.submit(num_returns="streaming")
    entry = hub_bench.entries[task.id]
    hub_bench.finish(task, FAILED, serialization.dumps(KeyError("x")).packed())
    item = hub_bench.hub.streaming.take(entry, 0)
    assert item is not None
    assert isinstance(hub_bench.error_of(item), KeyError)
    assert entry.kind == INLINE
    assert entry.stream is not None
    assert entry.stream.ended(1)


def test_a_consumer_that_wants_no_more_stops_the_producer(hub_bench: HubBench) -> None:
    task = hub_bench.submit(num_returns="streaming")
    item = yield_item(hub_bench, task, 0)
    worker = worker_of(task)
    hub_bench.sent(worker)
    hub_bench.hub.streaming.close(hub_bench.entries[task.id])
    assert item not in hub_bench.entries
    yield_item(hub_bench, task, 1, STORED)
    assert hub_bench.sent(worker) == [m.GrantCredit(task.id, -1)] * 2
    assert hub_bench.store.recycled == ["s0-1"]


def test_a_stream_is_closed_once_and_an_error_comes_too_late(hub_bench: HubBench) -> None:
    task = hub_bench.submit(num_returns="streaming")
    worker, entry = worker_of(task), hub_bench.entries[task.id]
    hub_bench.sent(worker)
    for _ in range(2):
        hub_bench.hub.streaming.close(entry)
    assert hub_bench.sent(worker) == [m.GrantCredit(task.id, -1)]
    known = set(hub_bench.entries)
    hub_bench.finish(task, FAILED, serialization.dumps(KeyError("x")).packed())
    assert set(hub_bench.entries) <= known  # there is no item with it
    assert entry.stream is not None
    assert entry.stream.finished


def test_a_stream_that_nobody_wants_is_not_begun(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    bench.submit()
    task = bench.submit(num_returns="streaming")
    entry = bench.entries[task.id]
    bench.drop(task.id)
    assert task.cancelled
    assert entry.stream is not None
    assert entry.stream.abandoned


def test_workers_wait_for_items_and_are_lent_them(hub_bench: HubBench) -> None:
    task, consumer = hub_bench.submit(num_returns="streaming"), worker_of(hub_bench.submit())
    hub_bench.receive(consumer, m.Hold((task.id,)))
    assert hub_bench.ask_as(consumer, "stream_next", task.id, 0, None) is None  # not yet
    item = yield_item(hub_bench, task, 0)
    assert consumer.loans == [item]
    hub_bench.receive(consumer, m.Hold((item,)), m.ReturnLoan(item))
    assert consumer.loans == []
    assert hub_bench.entries[item].count == 1
    assert hub_bench.ask_as(consumer, "stream_ready", task.id, 1) is False
    assert hub_bench.ask_as(consumer, "stream_finished", task.id, 1) is False
    hub_bench.ask_as(consumer, "stream_close", task.id)
    assert hub_bench.ask_as(consumer, "stream_finished", task.id, 1) is True


def test_a_worker_waits_for_an_item_as_long_as_it_said(hub_bench: HubBench) -> None:
    task, consumer = hub_bench.submit(num_returns="streaming"), worker_of(hub_bench.submit())
    answer = hub_bench.new_id()
    packed = serialization.dumps((task.id, 0, 0.5)).packed()
    hub_bench.receive(consumer, m.AskHub(answer, "stream_next", packed))
    hub_bench.pass_time()
    with pytest.raises(exceptions.GetTimeoutError, match=r"no item 0 after 0\.5 s"):
        hub_bench.answer_to(consumer, answer)
    yield_item(hub_bench, task, 0)
    assert hub_bench.sent(consumer) == []
