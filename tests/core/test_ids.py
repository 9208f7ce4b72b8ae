from __future__ import annotations

import pickle

import pytest

import skate
from skate._core.ids import ActorID, BaseID, JobID, NodeID, PlacementGroupID, TaskID, WorkerID

KINDS = [JobID, NodeID, WorkerID, ActorID, TaskID, PlacementGroupID]


@pytest.mark.parametrize("kind", KINDS)
def test_bytes_and_hex_and_back(kind: type[BaseID]) -> None:
    made = kind.from_random()
    assert kind.from_binary(made.binary()) == made
    assert kind.from_hex(made.hex()) == made
    assert pickle.loads(pickle.dumps(made)) == made
    assert hash(kind.from_hex(made.hex())) == hash(made)
    assert len(bytes(made)) == kind.size()
    assert repr(made) == f"{kind.__name__}({made.hex()})"
    assert not made.is_nil()
    assert kind.nil().is_nil()


def test_kinds_differ() -> None:
    assert NodeID(b"x" * 28) != WorkerID(b"x" * 28)
    with pytest.raises(ValueError, match="JobID has 4 bytes; got 3"):
        JobID(b"abc")


def test_ids_contain_what_they_belong_to() -> None:
    job = JobID.from_int(7)
    assert (job.int(), job.hex()) == (7, "07000000")
    driver = TaskID.for_driver_task(job)
    actor = ActorID.of(job, driver, 1)
    task = TaskID.for_actor_task(job, driver, 2, actor)
    assert (actor.job_id, task.actor_id(), task.job_id()) == (job, actor, job)
    assert TaskID.for_normal_task(job, driver, 1) != TaskID.for_normal_task(job, driver, 2)
    assert TaskID.for_actor_creation_task(actor).actor_id() == actor
    assert PlacementGroupID.of(job).binary().endswith(job.binary())


@pytest.mark.engines("inline")
@pytest.mark.usefixtures("engine")
def test_an_actor_knows_its_own_id() -> None:
    @skate.remote
    class Actor:
        def own_id(self) -> str | None:
            return skate.get_runtime_context().get_actor_id()

    handle = Actor.remote()
    assert skate.get(handle.own_id.remote()) == handle._actor_id.hex()


def test_ids_without_a_kind_of_their_own() -> None:
    made = skate.UniqueID.from_random()
    assert skate.UniqueID(made.binary()) == made
    assert made.size() == 28
    for kind in (skate.NodeID, skate.WorkerID, skate.FunctionID, skate.ActorClassID):
        assert issubclass(kind, skate.UniqueID)
