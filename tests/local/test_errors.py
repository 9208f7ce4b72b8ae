"""What the hub says of what went wrong."""

from __future__ import annotations

import errno
import os

import pytest

from skate import exceptions
from skate.engine.local.hub import errors
from skate.engine.local.hub.resources import ResourcePool, to_units
from tests.local.fakes import worker_of
from tests.local.hub_bench import HubBench


@pytest.mark.parametrize(
    ("number", "way_out"),
    [(errno.EMFILE, "ulimit -n"), (errno.EAGAIN, "ulimit -u"), (errno.ENOMEM, "")],
)
def test_why_there_is_no_process_and_what_may_help(number: int, way_out: str) -> None:
    said = errors.system_said(OSError(number, ""))
    assert said.startswith(os.strerror(number))
    assert way_out in said
    assert said.endswith(way_out + "`" if way_out else os.strerror(number))


def test_what_a_worker_has_said_itself_goes_before_how_it_ended(hub_bench: HubBench) -> None:
    worker = worker_of(hub_bench.submit())
    worker.pid, worker.status = 100, 9
    assert errors.how_it_ended(worker) == "the worker (pid=100) was killed by SIGKILL"
    worker.last_words = "it has said so"
    assert errors.how_it_ended(worker) == "it has said so"


@pytest.mark.parametrize(
    ("demand", "way_out"),
    [
        ({"CPU": 8.0}, "num_cpus=8"),
        ({"GPU": 1.0, "memory": 5.0}, "num_gpus=1, _memory=5"),
        ({"tpu": 2.0}, "resources={'tpu': 2.0}"),
        ({"label_selector=zone": 1.0}, "labels={...}"),
    ],
)
def test_a_demand_that_is_too_much_names_the_argument_of_init(
    demand: dict[str, float], way_out: str
) -> None:
    machine = ResourcePool(to_units({"CPU": 2.0, "node:here": 1.0}))
    said = errors.what_there_is(to_units(demand), machine)
    assert "{'CPU': 2.0}" in said
    assert f"skate.init({way_out})" in said


def test_what_ran_when_its_group_was_removed_has_an_error_of_its_kind(hub_bench: HubBench) -> None:
    once, again = hub_bench.submit(max_retries=0), hub_bench.submit()
    actor = hub_bench.create_actor()
    assert isinstance(errors.ended_with_group(once), exceptions.WorkerCrashedError)
    assert isinstance(errors.ended_with_group(again), exceptions.TaskPlacementGroupRemoved)
    ended = errors.ended_with_group(actor.creation)
    assert isinstance(ended, exceptions.ActorPlacementGroupRemoved)


def test_an_actor_that_asks_for_too_much_is_unschedulable(hub_bench: HubBench) -> None:
    actor = hub_bench.create_actor(num_cpus=64)
    error = hub_bench.error_of(actor.id)
    assert isinstance(error, exceptions.ActorUnschedulableError)
    assert "num_cpus=64" in str(error)


def test_tries_are_told_where_there_were_several(hub_bench: HubBench) -> None:
    task = hub_bench.submit()
    worker = worker_of(task)
    worker.pid, worker.status = 100, 9
    assert "tried" not in str(errors.crashed(worker, task))
    task.attempt = 2
    assert "It was tried 3 times" in str(errors.crashed(worker, task))
    actor = hub_bench.create_actor()
    call = hub_bench.call(actor)
    call.attempt = 1
    unavailable = errors.actor_unavailable(actor, "it crashed", call)
    assert "being restarted, because it crashed" in str(unavailable)
    assert "tried 2 times" in str(unavailable)
