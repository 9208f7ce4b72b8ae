"""The controller as Ray's tests ask it: `client._controller`.

Importing this module lets clients, and `ray.get_actor`, give out controllers that answer.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import skate
from skate import serve
from skate.actor import ActorHandle
from skate.compat.parts.serving import client as client_of_ray
from skate.serve import _client
from skate.serve._identity import CONTROLLER, NAMESPACE, DeploymentID, ReplicaID
from skate.serve._status import ReplicaState
from skate.util._state_rows import MOST_ROWS
from skate.util.state import list_actors


class RunningReplicaInfo(NamedTuple):
    """A replica that answers."""

    replica_id: ReplicaID
    max_ongoing_requests: int
    actor_handle: ActorHandle[Any]

    @property
    def actor_name(self) -> str:
        return self.replica_id.actor_name

    @property
    def deployment_name(self) -> str:
        return self.replica_id.deployment_id.name

    @property
    def replica_tag(self) -> str:
        return self.replica_id.unique_id

    @property
    def node_id(self) -> str:
        return skate.get_runtime_context().get_node_id()

    def get_actor_handle(self) -> ActorHandle[Any]:
        return self.actor_handle


class ByDeployment(dict[DeploymentID, list[RunningReplicaInfo]]):
    """Replicas by their deployments; until Ray 2.7 these were names."""

    def __missing__(self, key: object) -> list[RunningReplicaInfo]:
        named = (replicas for id, replicas in self.items() if key in (id.name, "_".join(id[::-1])))
        return next(named, [])


class ReplicaStates:
    """The replicas of a deployment, by what they are doing; here, those that answer."""

    def __init__(self, running: list[RunningReplicaInfo]) -> None:
        self._running = running

    def get(self, states: list[ReplicaState] | None = None) -> list[RunningReplicaInfo]:
        return self._running if states is None or ReplicaState.RUNNING in states else []

    def count(self, states: list[ReplicaState] | None = None, **_: object) -> int:
        return len(self.get(states))


def _running_replicas() -> ByDeployment:
    client = _client.connect()
    options = skate.get(client.controller.options.remote())
    found = ByDeployment({id: [] for id in options})
    for row in list_actors(limit=MOST_ROWS):
        id = _replica_of(row["name"] or "") if row["state"] == "ALIVE" else None
        if id is not None and id.deployment_id in found:
            handle = skate.get_actor(id.actor_name, namespace=NAMESPACE)
            most = options[id.deployment_id].max_ongoing_requests
            found[id.deployment_id].append(RunningReplicaInfo(id, most, handle))
    return found


def _replica_of(actor: str) -> ReplicaID | None:
    """Return the replica whose actor has this name; None if it is no replica's."""
    return ReplicaID.from_full_id_str(actor) if ReplicaID.is_actor_name(actor) else None


def _replica_states(id: DeploymentID) -> ReplicaStates:
    return ReplicaStates(_running_replicas()[id])


def _pid() -> int:
    (row,) = [row for row in list_actors(limit=MOST_ROWS) if row["name"] == CONTROLLER]
    return int(row["pid"])


def _ranks(id: DeploymentID) -> dict[str, Any]:
    ranks: dict[str, Any] = skate.get(_client.connect().controller.ranks.remote(id))
    return ranks


def _own_details() -> Any:
    """Tell where the controller is."""
    from skate.compat.parts.serving.details import ServeActorDetails

    runtime = skate.get_runtime_context()
    address = skate.util.get_node_ip_address()
    return ServeActorDetails(node_id=runtime.get_node_id(), node_ip=address, actor_name=CONTROLLER)


def _all_details(source: object = None) -> dict[str, Any]:
    client = client_of_ray.get_global_client()
    assert client is not None
    return client.get_serve_details()


def _deployment_details(app_name: str, deployment_name: str) -> Any:
    from skate.compat.parts.serving.details import DeploymentDetails

    found = _all_details()["applications"][app_name]["deployments"][deployment_name]
    return DeploymentDetails(**found)


def _docs_path(app_name: str) -> Any:
    return _all_details()["applications"][app_name]["docs_path"]


def _deployment_ids() -> list[DeploymentID]:
    return list(skate.get(_client.connect().controller.options.remote()))


def _nothing(*args: object) -> None:
    """Answer: that is all that is asked."""


_QUESTIONS: dict[str, Callable[..., Any]] = {
    "_all_running_replicas": _running_replicas,
    "_dump_replica_states_for_testing": _replica_states,
    "_get_replica_ranks_mapping": _ranks,
    "check_alive": _nothing,
    "get_actor_details": _own_details,
    "get_docs_path": _docs_path,
    "get_deployment_details": _deployment_details,
    "get_pid": _pid,
    "get_root_url": serve.http_address,
    "get_serve_instance_details": _all_details,
    "list_deployment_ids": _deployment_ids,
}


class _Question:
    def __init__(self, answer: Callable[..., Any]) -> None:
        self._answer = answer

    def remote(self, *args: Any, **kwargs: Any) -> Any:
        return skate.put(self._answer(*args, **kwargs))


class RayController(ActorHandle[Any]):
    """The controller's actor, which answers questions of Ray's tests besides its own."""

    def __getattr__(self, name: str) -> Any:
        question = _QUESTIONS.get(name)
        return super().__getattr__(name) if question is None else _Question(question)


def as_in_ray(controller: ActorHandle[Any]) -> RayController:
    return RayController(controller._ref, controller._meta)


client_of_ray.shown_controller = as_in_ray
