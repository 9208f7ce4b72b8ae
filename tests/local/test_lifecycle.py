"""Actors from their creation to their end, without processes."""

from __future__ import annotations

import pytest

from skate import exceptions
from skate._core import serialization
from skate.engine.local import messages as m
from skate.engine.local.hub.actors import ALIVE, DEAD, RESTARTING, HubActor
from skate.engine.local.hub.workers import WorkerProcess
from skate.engine.local.objects import FAILED
from tests.local.hub_bench import HubBench

ERROR = serialization.dumps(KeyError("x")).packed()


def process_of(actor: HubActor) -> WorkerProcess:
    assert actor.worker is not None
    return actor.worker


def test_calls_follow_the_construction(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor()
    call = hub_bench.call(actor)
    creation, sent = hub_bench.sent(process_of(actor))
    assert (creation.operation, creation.id) == (m.CREATION, actor.id)
    assert (sent.operation, sent.id, sent.target) == (m.CALL, call.id, "method")
    hub_bench.finish(actor.creation)
    assert actor.state == ALIVE
    hub_bench.finish(call)
    assert hub_bench.is_done(call.id)
    assert actor.entry.count == 1


def test_a_constructor_that_raises_ends_the_actor_and_its_calls(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(name="named")
    call, worker = hub_bench.call(actor), process_of(actor)
    hub_bench.finish(actor.creation, FAILED, ERROR)
    for id in (actor.id, call.id):
        assert isinstance(hub_bench.error_of(id), exceptions.ActorDiedError)
    assert m.ExitWorker() in hub_bench.sent(worker)
    assert hub_bench.hub.state.names == {}
    assert hub_bench.hub.state.actors == {}
    (row,) = hub_bench.ask("state", "actors")
    assert (row["state"], row["name"]) == (DEAD, "named")
    assert isinstance(hub_bench.error_of(hub_bench.call(actor).id), exceptions.ActorDiedError)


def test_an_actor_is_restarted_with_the_calls_that_may_be_retried(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(max_restarts=1)
    hub_bench.finish(actor.creation)
    again, lost = hub_bench.call(actor, max_task_retries=1), hub_bench.call(actor)
    first = process_of(actor)
    hub_bench.lose(first)
    assert isinstance(hub_bench.error_of(lost.id), exceptions.ActorUnavailableError)
    second = process_of(actor)
    creation, sent = hub_bench.sent(second)
    assert creation.settings["restarted"]
    assert sent.id == again.id
    hub_bench.lose(second)
    assert actor.state == DEAD
    assert isinstance(hub_bench.error_of(again.id), exceptions.ActorDiedError)


def test_an_actor_that_waits_for_a_place_can_be_killed(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    bench.submit()
    actor = bench.create_actor(num_cpus=1)
    bench.ask("kill", actor.id, False)  # there is nothing to restart
    assert actor.state != DEAD
    bench.ask("kill", actor.id, True)
    assert isinstance(bench.error_of(actor.id), exceptions.ActorDiedError)
    bench.ask("kill", actor.id, True)  # again: nothing to do


@pytest.mark.parametrize("no_restart", [False, True])
def test_a_running_actor_is_killed(hub_bench: HubBench, no_restart: bool) -> None:
    actor = hub_bench.create_actor(max_restarts=-1)
    hub_bench.finish(actor.creation)
    worker = process_of(actor)
    hub_bench.ask("kill", actor.id, no_restart)
    assert worker.ending == "killed"
    assert (actor.state == DEAD) == no_restart
    hub_bench.lose(worker)
    assert actor.state == (DEAD if no_restart else RESTARTING) or actor.worker is not worker


def test_a_killed_process_takes_the_actors_along_that_it_had_made(hub_bench: HubBench) -> None:
    maker, kept, detached = (hub_bench.create_actor(detached=n == 2) for n in range(3))
    for actor in (maker, kept, detached):
        hub_bench.finish(actor.creation)
    for actor in (kept, detached):
        actor.creation.owner = process_of(maker)
    hub_bench.lose(process_of(maker), status=9)
    assert (kept.state, detached.state) == (DEAD, ALIVE)
    assert "its owner has died" in str(hub_bench.error_of(hub_bench.call(kept).id))


def test_an_actor_that_ends_itself_is_not_restarted(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(max_restarts=-1)
    hub_bench.finish(actor.creation)
    worker = process_of(actor)
    hub_bench.receive(worker, m.ActorExiting(True, "it ended itself with exit_actor()", 0))
    hub_bench.lose(worker, status=0)
    assert "exit_actor()" in str(hub_bench.error_of(hub_bench.call(actor).id))


def test_the_last_handle_ends_the_actor(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor()
    hub_bench.finish(actor.creation)
    worker = process_of(actor)
    hub_bench.drop(actor.id)
    assert m.ExitWorker() in hub_bench.sent(worker)
    assert actor.id not in hub_bench.entries
    assert hub_bench.hub.state.deaths == {}


def test_the_last_handle_ends_an_actor_that_waits_for_a_place(one_cpu_bench: HubBench) -> None:
    bench = one_cpu_bench
    running = bench.submit()
    actor = bench.create_actor(num_cpus=1)
    bench.drop(actor.id)
    assert actor.state == DEAD
    bench.finish(running)
    assert actor.worker is None
    assert bench.ask("available_resources")["CPU"] == 1


def test_a_detached_actor_needs_no_handle(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(detached=True, name="kept")
    hub_bench.drop(actor.id)
    assert hub_bench.ask("get_actor", "kept", None)[0] == actor.id
    hub_bench.ask("kill", actor.id, True)
    with pytest.raises(ValueError, match="Failed to look up actor with name 'kept'"):
        hub_bench.ask("get_actor", "kept", None)


def test_actors_that_only_each_other_keep_end(hub_bench: HubBench) -> None:
    actors = [hub_bench.create_actor() for _ in range(2)]
    for actor, other in (actors, reversed(actors)):
        hub_bench.finish(actor.creation)
        hub_bench.receive(process_of(actor), m.Hold((other.id,)))
    hub_bench.drop(actors[0].id, actors[1].id)
    assert {actor.state for actor in actors} == {ALIVE}
    hub_bench.pass_time()
    assert {actor.state for actor in actors} == {DEAD}


def test_actors_that_something_else_keeps_go_on(hub_bench: HubBench) -> None:
    """One holds a value with the handle of the other, which the driver has as well."""
    keeper, kept = hub_bench.create_actor(), hub_bench.create_actor()
    value = hub_bench.put()
    value.contained = (kept.id,)
    for actor in (keeper, kept):
        hub_bench.finish(actor.creation)
    hub_bench.receive(process_of(kept), m.Hold((keeper.id, value.id)))
    hub_bench.drop(keeper.id)
    hub_bench.pass_time()
    assert {keeper.state, kept.state} == {ALIVE}


def test_too_many_unfinished_calls_are_refused(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(max_pending_calls=1)
    call = hub_bench.call(actor)
    with pytest.raises(exceptions.PendingCallsLimitExceeded, match="max_pending_calls=1"):
        hub_bench.hub.lifecycle.check_pending_calls(actor.id)
    hub_bench.finish(actor.creation)
    hub_bench.finish(call)
    hub_bench.hub.lifecycle.check_pending_calls(actor.id)


def test_a_call_with_a_failed_argument_is_not_sent(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(max_pending_calls=1)
    failed = hub_bench.put(FAILED, ERROR)
    call = hub_bench.call(actor, failed)
    assert isinstance(hub_bench.error_of(call.id), exceptions.TaskError)
    hub_bench.hub.lifecycle.check_pending_calls(actor.id)
    assert failed.count == 1


def test_a_taken_name(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(name="taken")
    claim = hub_bench.hub.actor_names.claim
    assert claim(actor.options._replace(get_if_exists=True)) is actor
    assert claim(actor.options._replace(namespace="other")) is None
    with pytest.raises(exceptions.ActorAlreadyExistsError, match="'taken'"):
        claim(actor.options)
    assert hub_bench.ask("named_actors", False) == [("default", "taken")]
