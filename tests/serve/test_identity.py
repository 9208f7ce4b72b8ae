"""Names of replicas' actors, by which a controller finds its replicas again."""

from __future__ import annotations

import os
import random
import uuid

import pytest

from skate.serve._identity import DeploymentID, ReplicaID, new_request_id


@pytest.mark.parametrize("app", ["default", "shop::eu", "shop#1", "::", "SERVE_REPLICA::x"])
def test_a_replica_is_known_by_the_name_of_its_actor(app: str) -> None:
    id = ReplicaID("tag", DeploymentID("Model", app))
    assert ReplicaID.from_full_id_str(id.actor_name) == id
    assert ReplicaID.is_actor_name(id.actor_name)


@pytest.mark.parametrize("name", ["SERVE_REPLICA::", "SERVE_REPLICA::a#b", "other"])
def test_other_names_are_no_replicas(name: str) -> None:
    assert not ReplicaID.is_actor_name(name)
    with pytest.raises(ValueError, match="no name of a replica's actor"):
        ReplicaID.from_full_id_str(name)


def test_requests_have_random_names() -> None:
    names = [new_request_id() for _ in range(100)]
    assert len(set(names)) == 100
    for name in names:
        made = uuid.UUID(name)
        assert (made.version, made.variant, str(made)) == (4, uuid.RFC_4122, name)


def test_what_programs_seed_makes_no_request_of_the_same_name() -> None:
    random.seed(7)
    first = new_request_id()
    random.seed(7)
    assert new_request_id() != first


def test_a_fork_makes_other_names() -> None:
    here, there = os.pipe()
    child_pid = os.fork()
    if not child_pid:
        os.write(there, new_request_id().encode())
        os._exit(0)
    os.close(there)
    with open(here) as child:
        assert child.read() != new_request_id()
    os.waitpid(child_pid, 0)
