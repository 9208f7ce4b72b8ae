"""Names of replicas' actors, by which a controller finds its replicas again."""

from __future__ import annotations

import pytest

from skate.serve._identity import DeploymentID, ReplicaID


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
