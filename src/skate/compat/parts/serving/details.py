"""Of `ray.serve.schema`: everything that runs, in detail, as `get_serve_details()` tells it."""

from __future__ import annotations

from enum import Enum
from typing import Any

from pydantic import BaseModel, Field

import skate
from skate import serve
from skate.serve._identity import CONTROLLER, DeploymentID, ReplicaID
from skate.serve._status import (
    ApplicationStatus,
    DeploymentStatus,
    DeploymentStatusTrigger,
    ProxyStatus,
    ReplicaState,
    ServeStatus,
)
from skate.serve.config import ProxyLocation
from skate.serve.schema import DeploymentSchema, HTTPOptionsSchema, ServeApplicationSchema
from skate.util.state import list_actors

__all__ = [
    "APIType",
    "ApplicationDetails",
    "DeploymentDetails",
    "EncodingType",
    "ProxyDetails",
    "ReplicaDetails",
    "ServeActorDetails",
    "ServeInstanceDetails",
]


class EncodingType(str, Enum):
    """How a line of a log is written."""

    TEXT = "TEXT"
    JSON = "JSON"


class APIType(str, Enum):
    """How an application was deployed."""

    UNKNOWN = "unknown"
    IMPERATIVE = "imperative"
    DECLARATIVE = "declarative"


class ServeActorDetails(BaseModel, frozen=True):
    """A process that takes part."""

    node_id: str | None = None
    node_ip: str | None = None
    node_instance_id: str | None = None
    actor_id: str | None = None
    actor_name: str | None = None
    worker_id: str | None = None
    log_file_path: str | None = None


class ReplicaDetails(ServeActorDetails, frozen=True):
    """A replica."""

    replica_id: str
    state: ReplicaState
    pid: int | None = None
    start_time_s: float = 0.0


class DeploymentDetails(BaseModel):
    """A deployment and its replicas."""

    name: str
    status: DeploymentStatus
    status_trigger: DeploymentStatusTrigger
    message: str
    deployment_config: DeploymentSchema
    target_num_replicas: int
    required_resources: dict[str, Any] = Field(default_factory=dict)
    replicas: list[ReplicaDetails]


class ApplicationDetails(BaseModel):
    """An application and its deployments."""

    name: str
    route_prefix: str | None
    docs_path: str | None = None
    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployed_app_config: ServeApplicationSchema | None = None
    source: APIType = APIType.UNKNOWN
    deployments: dict[str, DeploymentDetails]
    external_scaler_enabled: bool = False


class ProxyDetails(ServeActorDetails, frozen=True):
    """Where HTTP is answered."""

    status: ProxyStatus


class ServeInstanceDetails(BaseModel):
    """All that runs."""

    controller_info: ServeActorDetails
    proxy_location: ProxyLocation | None = None
    http_options: HTTPOptionsSchema | None = None
    proxies: dict[str, ProxyDetails] = Field(default_factory=dict)
    applications: dict[str, ApplicationDetails] = Field(default_factory=dict)
    target_capacity: float | None = None


def details(configs: dict[str, Any], routes: dict[str, str]) -> dict[str, Any]:
    """Return all of it, as a dictionary of plain values.

    Args:
        configs: What a config said of applications, by name.
        routes: The prefixes of applications, by name.
    """
    status = serve.status()
    rows = {row["name"]: row for row in list_actors(limit=100_000) if row["state"] != "DEAD"}
    applications = {
        name: _application(name, status, rows, routes.get(name), configs.get(name))
        for name in status.applications
    }
    told = ServeInstanceDetails(
        controller_info=ServeActorDetails(**_actor(CONTROLLER, rows.get(CONTROLLER, {}))),
        proxy_location=ProxyLocation.HeadOnly if status.proxies else ProxyLocation.Disabled,
        proxies={node: ProxyDetails(node_id=node, status=s) for node, s in status.proxies.items()},
        applications=applications,
    )
    return told.model_dump(mode="json", exclude_unset=True)


def _application(
    name: str, status: ServeStatus, rows: dict[str, Any], prefix: str | None, config: Any
) -> ApplicationDetails:
    overview = status.applications[name]
    source = APIType.IMPERATIVE if config is None else APIType.DECLARATIVE
    return ApplicationDetails(
        name=name,
        route_prefix=prefix,
        status=overview.status,
        message=overview.message,
        last_deployed_time_s=overview.last_deployed_time_s,
        deployed_app_config=config,
        source=source,
        deployments={
            each: _deployment(DeploymentID(each, name), found, rows)
            for each, found in overview.deployments.items()
        },
    )


def _deployment(id: DeploymentID, overview: Any, rows: dict[str, Any]) -> DeploymentDetails:
    prefix = ReplicaID("", id).actor_name
    replicas = [
        ReplicaDetails(
            **_actor(actor, row),
            replica_id=actor.removeprefix(prefix),
            state=ReplicaState.RUNNING if row["state"] == "ALIVE" else ReplicaState.STARTING,
            pid=row["pid"],
        )
        for actor, row in rows.items()
        if actor.startswith(prefix)
    ]
    going = sum(n for state, n in overview.replica_states.items() if state != "STOPPING")
    return DeploymentDetails(
        name=id.name,
        status=overview.status,
        status_trigger=overview.status_trigger,
        message=overview.message,
        deployment_config=DeploymentSchema(name=id.name),
        target_num_replicas=going,
        replicas=replicas,
    )


def _actor(name: str, row: Any) -> dict[str, Any]:
    return {
        "actor_name": name,
        "actor_id": row.get("actor_id"),
        "node_id": row.get("node_id") or skate.get_runtime_context().get_node_id(),
        "node_ip": "127.0.0.1",
    }
