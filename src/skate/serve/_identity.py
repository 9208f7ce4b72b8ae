"""Who is who: deployments and their replicas."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from skate.actor import ActorHandle, ActorMethod
    from skate.serve._controller.actor import ServeController
    from skate.serve._controller.saved_state import StateStore
    from skate.serve._replica.actor import Replica

    ControllerHandle = ActorHandle[ServeController]
    ReplicaHandle = ActorHandle[Replica]
    ReplicaMethod = ActorMethod[..., Any, Any]
    StateStoreHandle = ActorHandle[StateStore]

DEFAULT_APP = "default"
NAMESPACE = "serve"
CONTROLLER = "SERVE_CONTROLLER_ACTOR"
STATE_STORE = "SERVE_CONTROLLER_STATE_STORE"
GRPC_SERVER = "SERVE_GRPC_SERVER"
INGRESSES = ("ingresses",)  # is published: the deployments in front, by application
GANG_GROUP = "SERVE_GANG::"  # begins the names of placement groups
_REPLICA = "SERVE_REPLICA::"


class DeploymentID(NamedTuple):
    """A deployment of an application."""

    name: str
    app_name: str = DEFAULT_APP

    def to_replica_actor_class_name(self) -> str:
        """Return what the class of its replicas is called where actors are listed."""
        return f"ServeReplica:{self.app_name}:{self.name}"

    def __str__(self) -> str:
        return f"Deployment(name={self.name!r}, app={self.app_name!r})"

    def __repr__(self) -> str:
        return str(self)


class ReplicaID(NamedTuple):
    """One replica of a deployment; the name of its actor is `actor_name`."""

    unique_id: str
    deployment_id: DeploymentID

    @staticmethod
    def is_actor_name(name: str) -> bool:
        """Return whether an actor of this name is a replica's."""
        return name.startswith(_REPLICA) and name.count("#") >= 2

    @property
    def actor_name(self) -> str:
        """The name of its actor."""
        name, app = self.deployment_id
        return f"{_REPLICA}{app}#{name}#{self.unique_id}"

    def to_full_id_str(self) -> str:
        """Return the name of its actor."""
        return self.actor_name

    @classmethod
    def from_full_id_str(cls, name: str) -> ReplicaID:
        """Return the replica whose actor has this name.

        Args:
            name: The name of the actor.

        Raises:
            ValueError: If it is no replica's.
        """
        parts = name.removeprefix(_REPLICA).rsplit(
            "#", 2
        )  # the application may be called anything
        if len(parts) != 3:
            raise ValueError(f"{name!r} is no name of a replica's actor")
        app, deployment, tag = parts
        return cls(tag, DeploymentID(deployment, app))

    def __str__(self) -> str:
        name, app = self.deployment_id
        return f"Replica(id={self.unique_id!r}, deployment={name!r}, app={app!r})"

    def __repr__(self) -> str:
        return str(self)


def new_tag() -> str:
    """Return a short random name, for replicas and requests."""
    return os.urandom(4).hex()


def new_request_id() -> str:
    """Return the name of a request, a random UUID that is no secret."""
    text = f"{_request_ids.getrandbits(128):032x}"
    return f"{text[:8]}-{text[8:12]}-4{text[13:16]}-a{text[17:20]}-{text[20:]}"


# A source of its own, whatever programs seed; the kernel's takes a system call for each.
_request_ids = random.Random()
os.register_at_fork(after_in_child=_request_ids.seed)
