"""What workers ask of the hub and submit to it, without processes."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from skate import exceptions
from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub.values import NONE
from skate.engine.local.hub.workers import WorkerProcess
from skate.engine.local.objects import FAILED, INLINE, STORED
from skate.engine.specs import ActorOptions, CallOptions, TaskOptions
from tests.local.fakes import worker_of
from tests.local.hub_bench import META, HubBench

META_PACKED = serialization.dumps(META).packed()


def busy_worker(bench: HubBench) -> WorkerProcess:
    worker = worker_of(bench.submit())
    bench.sent(worker)
    return worker


def define(bench: HubBench, worker: WorkerProcess, options: object) -> int:
    key = bench.new_id()
    bench.receive(worker, m.DefineOptions(key, serialization.dumps(options).packed()))
    return key


def export(bench: HubBench, worker: WorkerProcess, *nested: int) -> int:
    key = bench.new_id()
    bench.receive(worker, m.ExportFunction(key, INLINE, NONE, "inner", nested))
    return key


def test_a_worker_submits_a_task_and_holds_its_value(hub_bench: HubBench) -> None:
    worker, id = busy_worker(hub_bench), hub_bench.new_id()
    key, options = export(hub_bench, worker), define(hub_bench, worker, TaskOptions())
    hub_bench.receive(worker, m.SubmitTask(id, key, INLINE, NONE, [], (), options, 7))
    task = hub_bench.entries[id].task
    assert task is not None
    assert id in worker.holds
    assert hub_bench.hub.state.children == {7: {id}}
    hub_bench.receive(worker, m.Subscribe([id]))
    hub_bench.finish(task)
    assert hub_bench.sent(worker) == [m.TellValue(id, INLINE, NONE)]
    hub_bench.receive(worker, m.Release((id,)))
    assert id not in hub_bench.entries


def test_options_that_make_no_sense_are_the_error_of_the_task(hub_bench: HubBench) -> None:
    worker, id = busy_worker(hub_bench), hub_bench.new_id()
    key = export(hub_bench, worker)
    group = hub_bench.new_id()
    handle = type("Handle", (), {})()
    options = TaskOptions(num_returns=2, placement_group=handle)
    worker.options[1] = options
    handle._ref = type("Ref", (), {"_id": group})()
    hub_bench.receive(worker, m.SubmitTask(id, key, INLINE, NONE, [], (), 1, 0))
    for value in (id, id + 1):
        assert isinstance(hub_bench.error_of(value), ValueError)


def test_named_actors_of_workers(hub_bench: HubBench) -> None:
    worker, other = busy_worker(hub_bench), busy_worker(hub_bench)
    key = export(hub_bench, worker)
    options = define(hub_bench, worker, ActorOptions(name="n", get_if_exists=True))
    id, second = hub_bench.new_id(), hub_bench.new_id()
    creation = m.SubmitActor(id, key, INLINE, NONE, [], (), options, META_PACKED)
    assert hub_bench.ask_as(worker, "create_named_actor", *creation) is None
    again = creation._replace(id=second)
    assert hub_bench.ask_as(worker, "create_named_actor", *again) == (id, META_PACKED)
    assert hub_bench.ask_as(other, "get_actor", "n", None) == (id, META_PACKED)
    assert worker.loans == other.loans == [id]
    with pytest.raises(ValueError, match="'unknown'"):
        hub_bench.ask_as(other, "get_actor", "unknown", None)


def test_a_call_that_may_not_be_made_is_an_error(hub_bench: HubBench) -> None:
    worker = busy_worker(hub_bench)
    actor = hub_bench.create_actor(max_pending_calls=1)
    options = define(hub_bench, worker, CallOptions())
    first, second = hub_bench.new_id(), hub_bench.new_id()
    for id in (first, second):
        call = m.SubmitCall(id, actor.id, "method", INLINE, NONE, [], (), options, 0)
        hub_bench.receive(worker, call)
    assert not hub_bench.is_done(first)
    assert isinstance(hub_bench.error_of(second), exceptions.PendingCallsLimitExceeded)


@pytest.mark.parametrize("retries", [0, 1])
def test_a_call_lost_on_its_direct_way(hub_bench: HubBench, retries: int) -> None:
    worker, actor = busy_worker(hub_bench), hub_bench.create_actor(max_restarts=1)
    hub_bench.finish(actor.creation)
    callee = actor.worker
    assert callee is not None
    options = define(hub_bench, worker, CallOptions(max_task_retries=retries))
    id = hub_bench.new_id()
    call = m.SubmitCall(id, actor.id, "method", INLINE, NONE, [], (), options, 0)
    hub_bench.receive(worker, m.LostCall(callee.number, tuple(call)))
    assert not hub_bench.is_done(id)  # the value may still come
    hub_bench.lose(callee)
    if retries:
        assert hub_bench.entries[id].task is not None
    else:
        assert isinstance(hub_bench.error_of(id), exceptions.ActorUnavailableError)


def test_a_call_lost_with_an_actor_that_has_ended_since(hub_bench: HubBench) -> None:
    worker, actor = busy_worker(hub_bench), hub_bench.create_actor()
    hub_bench.finish(actor.creation)
    callee = actor.worker
    assert callee is not None
    options, id = define(hub_bench, worker, CallOptions()), hub_bench.new_id()
    call = m.SubmitCall(id, actor.id, "method", INLINE, NONE, [], (), options, 0)
    hub_bench.lose(callee)
    hub_bench.receive(worker, m.LostCall(callee.number, tuple(call)))
    assert isinstance(hub_bench.error_of(id), exceptions.ActorDiedError)


def test_an_actor_in_a_group_that_is_not_there_is_an_error(hub_bench: HubBench) -> None:
    worker, id = busy_worker(hub_bench), hub_bench.new_id()
    key = export(hub_bench, worker)
    handle = SimpleNamespace(_ref=SimpleNamespace(_id=hub_bench.new_id()))
    worker.options[1] = ActorOptions(placement_group=handle)
    creation = m.SubmitActor(id, key, INLINE, NONE, [], (), 1, META_PACKED)
    hub_bench.receive(worker, creation)
    assert isinstance(hub_bench.error_of(id), ValueError)


def test_options_are_forgotten_when_the_worker_says_so(hub_bench: HubBench) -> None:
    worker = busy_worker(hub_bench)
    define(hub_bench, worker, TaskOptions())
    hub_bench.receive(worker, m.DefineOptions(-1, None))
    assert worker.options == {}


def test_functions_of_workers_live_as_long_as_somebody_can_send_them(hub_bench: HubBench) -> None:
    worker, kept = busy_worker(hub_bench), hub_bench.put()
    key = export(hub_bench, worker, kept.id)
    assert kept.count == 2
    hub_bench.receive(worker, m.UnexportFunction(key))
    hub_bench.hub.functions.forget_gone()
    assert kept.count == 1
    other = export(hub_bench, worker)
    assert other in hub_bench.hub.state.functions
    hub_bench.lose(worker)
    assert hub_bench.hub.state.functions == {}


def test_room_is_made_without_the_lock_and_answered_then(hub_bench: HubBench) -> None:
    worker, answer = busy_worker(hub_bench), hub_bench.new_id()
    packed = serialization.dumps((10,)).packed()
    hub_bench.receive(worker, m.AskHub(answer, "make_room", packed))
    assert hub_bench.sent(worker) == []
    hub_bench.pass_time()
    assert hub_bench.answer_to(worker, answer) is False


def test_pinned_objects_outlive_their_holders(hub_bench: HubBench) -> None:
    worker, entry = busy_worker(hub_bench), hub_bench.put()
    hub_bench.ask_as(worker, "pin", entry.id)
    hub_bench.drop(entry.id)
    assert entry.id in hub_bench.entries


def test_unknown_questions_are_answered_with_an_error(hub_bench: HubBench) -> None:
    with pytest.raises(KeyError):
        hub_bench.ask_as(busy_worker(hub_bench), "_kill", 1, True)


def test_where_a_segment_is(hub_bench: HubBench) -> None:
    stored, inline = hub_bench.put(STORED, ("s0-1", 5)), hub_bench.put()
    hub_bench.store.present.add("s0-1")
    assert hub_bench.ask("locate", stored.id) == ("s0-1", 5)
    for id in (inline.id, 12345):
        with pytest.raises(exceptions.ObjectLostError):
            hub_bench.ask("locate", id)


def test_values_of_workers(hub_bench: HubBench) -> None:
    worker, inner = busy_worker(hub_bench), hub_bench.put()
    put, promised = hub_bench.new_id(), hub_bench.new_id()
    hub_bench.receive(worker, m.PutValue(put, STORED, ("s9-1", 2000), (inner.id,)))
    assert inner.count == 2
    assert hub_bench.spilling.bytes_in_memory == 2000
    assert len(hub_bench.reactor.after) == 1  # more than there may be
    hub_bench.receive(worker, m.PromiseValues([promised]))
    hub_bench.lose(worker, status=9)
    assert put not in hub_bench.entries  # only the worker held it
    assert promised not in hub_bench.entries
    assert inner.count == 1


def test_a_broken_promise_is_an_error(hub_bench: HubBench) -> None:
    worker, promised = busy_worker(hub_bench), hub_bench.new_id()
    hub_bench.receive(worker, m.PromiseValues([promised]))
    hub_bench.hub.counts.add((promised,))
    hub_bench.lose(worker)
    assert isinstance(hub_bench.error_of(promised), exceptions.OwnerDiedError)


def test_a_waiting_worker_lends_its_cpus_unless_the_answer_is_on_its_way(
    one_cpu_bench: HubBench,
) -> None:
    bench = one_cpu_bench
    worker, pending, there = busy_worker(bench), bench.put(None), bench.put()
    bench.receive(worker, m.Blocked(1, [there.id], 1))
    assert worker.blocked == 0
    bench.receive(worker, m.Blocked(2, [pending.id], 1))
    inner = bench.submit()
    assert worker_of(inner) is not worker
    bench.receive(worker, m.Unblocked(2), m.Unblocked(2))
    assert worker.blocked == 0


def test_idle_workers_beyond_those_worth_keeping_end(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    worker = busy_worker(bench)
    bench.receive(worker, m.Blocked(1, [bench.put(None).id], 1))
    inner = bench.submit()
    second = worker_of(inner)
    bench.finish(inner)
    bench.receive(worker, m.Unblocked(1))
    bench.finish(next(iter(worker.in_flight.values())))
    for idle in (worker, second):
        idle.since = 0.0
    bench.pass_time()
    assert [bool(idle.ending) for idle in (worker, second)].count(True) == 1


def test_actors_are_called_directly_once_they_listen(hub_bench: HubBench) -> None:
    caller, actor = busy_worker(hub_bench), hub_bench.create_actor()
    target = actor.worker
    assert target is not None
    hub_bench.sent(target)
    for _ in range(2):
        hub_bench.receive(caller, m.ConnectTo(actor.id))
    assert hub_bench.sent(target) == [m.ListenToPeers()]
    hub_bench.receive(target, m.Listening("actor-1"))
    address = m.PeerAddress(actor.id, "actor-1", False, target.number)
    assert hub_bench.sent(caller) == [address] * 2
    hub_bench.receive(caller, m.ConnectTo(actor.id), m.ConnectTo(12345))
    assert hub_bench.sent(caller) == [address, m.PeerAddress(12345, "", False, 0)]


def test_who_waits_for_an_address_is_told_that_there_is_none(hub_bench: HubBench) -> None:
    caller, actor = busy_worker(hub_bench), hub_bench.create_actor()
    assert actor.worker is not None
    hub_bench.receive(caller, m.ConnectTo(actor.id))
    hub_bench.lose(actor.worker)
    assert hub_bench.sent(caller) == [m.PeerAddress(actor.id, "", False, 0)]


def test_large_answers_to_direct_calls_are_kept_for_the_caller(hub_bench: HubBench) -> None:
    caller, callee = busy_worker(hub_bench), busy_worker(hub_bench)
    id, lost = hub_bench.new_id(), hub_bench.new_id()
    hub_bench.receive(
        callee,
        m.PutValueFor(caller.number, id, STORED, ("s8-1", 5), ()),
        m.PutValueFor(12345, lost, STORED, ("s8-2", 5), ()),
    )
    assert id in caller.holds
    assert hub_bench.store.deleted == ["s8-2"]  # neither its caller nor its writer is there


def test_prints_are_passed_on(hub_bench: HubBench) -> None:
    hub_bench.receive(busy_worker(hub_bench), m.PrintText(1, "f", "hello\n", 0))
    assert hub_bench.printed == [(1, "f", "hello\n")]


def test_segments_of_a_dead_worker_are_deleted(hub_bench: HubBench) -> None:
    worker = busy_worker(hub_bench)
    hub_bench.lose(worker)
    assert hub_bench.store.deleted == [f"free ones of {worker.number}, except ['']"]


def test_errors_of_stored_values_nobody_wants(hub_bench: HubBench) -> None:
    entry = hub_bench.put()
    hub_bench.hub.values.complete(entry.id, FAILED, NONE)  # it has a value already
    assert entry.kind == INLINE
