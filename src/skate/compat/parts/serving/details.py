"""Of `ray.serve.schema`: everything that runs, in detail, as `get_serve_details()` tells it."""

from __future__ import annotations

from contextlib import suppress
from enum import Enum
from typing import Any

from pydantic import BaseModel, Field

import skate
from skate import serve
from skate.exceptions import SkateError
from skate.serve import _client
from skate.serve._application.options import DeploymentOptions
from skate.serve._identity import CONTROLLER, NAMESPACE, DeploymentID, ReplicaID
from skate.serve._status import (
    ApplicationStatus,
    DeploymentStatus,
    DeploymentStatusTrigger,
    ProxyStatus,
    ReplicaState,
    ServeStatus,
)
from skate.serve.config import AutoscalingPolicy, ProxyLocation
from skate.serve.schema import (
    DeploymentSchema,
    HTTPOptionsSchema,
    RayActorOptionsSchema,
    ServeApplicationSchema,
)
from skate.util._state_rows import MOST_ROWS
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

    @staticmethod
    def get_empty_schema_dict() -> dict[str, Any]:
        """Return what is told where nothing runs."""
        return {"controller_info": {}, "proxies": {}, "applications": {}, "target_capacity": None}

    def _get_user_facing_json_serializable_dict(self, **kwargs: Any) -> dict[str, Any]:
        """Return it as plain values, without what only skate itself needs."""
        return self.model_dump(mode="json", **kwargs)


def details(
    configs: dict[str, Any],
    routes: dict[str, str],
    options: dict[DeploymentID, DeploymentOptions],
) -> dict[str, Any]:
    """Return all of it, as a dictionary of plain values.

    Args:
        configs: What a config said of applications, by name.
        routes: The prefixes of applications, by name.
        options: Those of all deployments.
    """
    status = serve.status()
    rows = {row["name"]: row for row in list_actors(limit=MOST_ROWS) if row["state"] != "DEAD"}
    applications = {
        name: _application(name, status, rows, routes.get(name), configs.get(name), options)
        for name in status.applications
    }
    told = ServeInstanceDetails(
        controller_info=ServeActorDetails(**_actor(CONTROLLER, rows.get(CONTROLLER, {}))),
        proxy_location=ProxyLocation.HeadOnly if status.proxies else ProxyLocation.Disabled,
        proxies={node: ProxyDetails(node_id=node, status=s) for node, s in status.proxies.items()},
        applications=applications,
        target_capacity=status.target_capacity,
    )
    return told.model_dump(mode="json", exclude_unset=True)


def _application(
    name: str,
    status: ServeStatus,
    rows: dict[str, Any],
    prefix: str | None,
    config: Any,
    options: dict[DeploymentID, DeploymentOptions],
) -> ApplicationDetails:
    overview = status.applications[name]
    source = APIType.IMPERATIVE if config is None else APIType.DECLARATIVE
    return ApplicationDetails(
        name=name,
        route_prefix=prefix,
        status=overview.status,
        message=overview.message,
        last_deployed_time_s=overview.last_deployed_time_s,
        docs_path=_docs_path(name, rows),
        deployed_app_config=config,
        source=source,
        deployments={
            each: _deployment(id, found, rows, options[id])
            for each, found in overview.deployments.items()
            if (id := DeploymentID(each, name)) in options
        },
    )


def _docs_path(app: str, rows: dict[str, Any]) -> str | None:
    """Return where an application documents itself, if a replica answers that does."""
    ingress = skate.get(_client.connect().controller.ingress_of.remote(app))
    for actor in _replicas(DeploymentID(ingress or "", app), rows):
        with suppress(SkateError, ValueError):  # it is gone, or not complete
            replica: Any = skate.get_actor(actor, namespace=NAMESPACE)
            told: str | None = skate.get(replica.describe.remote()).docs_path
            return told
    return None


def _replicas(id: DeploymentID, rows: dict[str, Any]) -> dict[str, Any]:
    prefix = ReplicaID("", id).actor_name
    return {actor: row for actor, row in rows.items() if actor.startswith(prefix)}


def _deployment(
    id: DeploymentID, overview: Any, rows: dict[str, Any], options: DeploymentOptions
) -> DeploymentDetails:
    prefix = ReplicaID("", id).actor_name
    replicas = [
        ReplicaDetails(
            **_actor(actor, row),
            replica_id=actor.removeprefix(prefix),
            state=ReplicaState.RUNNING if row["state"] == "ALIVE" else ReplicaState.STARTING,
            pid=row["pid"],
        )
        for actor, row in _replicas(id, rows).items()
    ]
    going = sum(n for state, n in overview.replica_states.items() if state != "STOPPING")
    return DeploymentDetails(
        name=id.name,
        status=overview.status,
        status_trigger=overview.status_trigger,
        message=overview.message,
        deployment_config=_config(id.name, options),
        target_num_replicas=going,
        replicas=replicas,
    )


_SHOWN = (
    "max_ongoing_requests", "max_queued_requests", "user_config",
    "graceful_shutdown_wait_loop_s", "graceful_shutdown_timeout_s", "health_check_period_s",
    "health_check_timeout_s",
)  # fmt: skip


_FORMER = ("target_num_ongoing_requests_per_replica",)  # what Ray no longer tells
_USUAL_POLICY = "ray.serve.autoscaling_policy:default_autoscaling_policy"


def _config(name: str, options: DeploymentOptions) -> DeploymentSchema:
    """Return the options of a deployment as a config file would say them."""
    shown = {field: getattr(options, field) for field in _SHOWN}
    scaling = options.autoscaling
    if scaling is None:
        shown["num_replicas"] = options.num_replicas
    else:
        said = {name: value for name, value in scaling.dict().items() if name not in _FORMER}
        shown["autoscaling_config"] = {**said, "policy": _policy(scaling.policy)}
    actor = RayActorOptionsSchema(**options.actor_options)
    return DeploymentSchema(name=name, ray_actor_options=actor, **shown)


def _policy(policy: AutoscalingPolicy) -> dict[str, Any]:
    function: Any = policy.policy_function or _USUAL_POLICY
    if not isinstance(function, str):
        function = f"{function.__module__}:{function.__qualname__}"
    return {"policy_function": function, "policy_kwargs": policy.policy_kwargs}


def _actor(name: str, row: Any) -> dict[str, Any]:
    return {
        "actor_name": name,
        "actor_id": row.get("actor_id"),
        "node_id": row.get("node_id") or skate.get_runtime_context().get_node_id(),
        "node_ip": "127.0.0.1",
    }
