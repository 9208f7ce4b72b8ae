"""How applications, deployments and replicas are doing: what `serve.status()` returns."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class ApplicationStatus(str, Enum):
    """How an application is doing."""

    NOT_STARTED = "NOT_STARTED"
    DEPLOYING = "DEPLOYING"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    RUNNING = "RUNNING"
    UNHEALTHY = "UNHEALTHY"
    DELETING = "DELETING"


class DeploymentStatus(str, Enum):
    """How a deployment is doing."""

    UPDATING = "UPDATING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DEPLOY_FAILED = "DEPLOY_FAILED"
    UPSCALING = "UPSCALING"
    DOWNSCALING = "DOWNSCALING"


class DeploymentStatusTrigger(str, Enum):
    """What led to the status of a deployment."""

    UNSPECIFIED = "UNSPECIFIED"
    CONFIG_UPDATE_STARTED = "CONFIG_UPDATE_STARTED"
    CONFIG_UPDATE_COMPLETED = "CONFIG_UPDATE_COMPLETED"
    UPSCALE_COMPLETED = "UPSCALE_COMPLETED"
    DOWNSCALE_COMPLETED = "DOWNSCALE_COMPLETED"
    AUTOSCALING = "AUTOSCALING"
    REPLICA_STARTUP_FAILED = "REPLICA_STARTUP_FAILED"
    HEALTH_CHECK_FAILED = "HEALTH_CHECK_FAILED"
    INTERNAL_ERROR = "INTERNAL_ERROR"
    DELETING = "DELETING"


class ReplicaState(str, Enum):
    """What a replica is doing."""

    STARTING = "STARTING"
    UPDATING = "UPDATING"
    RECOVERING = "RECOVERING"
    RUNNING = "RUNNING"
    STOPPING = "STOPPING"
    PENDING_MIGRATION = "PENDING_MIGRATION"


class ProxyStatus(str, Enum):
    """How the process that answers HTTP on a machine is doing."""

    STARTING = "STARTING"
    HEALTHY = "HEALTHY"
    UNHEALTHY = "UNHEALTHY"
    DRAINING = "DRAINING"
    DRAINED = "DRAINED"


@dataclass(frozen=True)
class ReplicaRank:
    """The number of a replica among those of its deployment; on one machine, also there."""

    rank: int
    node_rank: int = 0
    local_rank: int = -1

    def __post_init__(self) -> None:
        if self.local_rank < 0:
            object.__setattr__(self, "local_rank", self.rank)


@dataclass
class DeploymentStatusOverview:
    """How a deployment is doing.

    Args:
        status: Its status.
        status_trigger: What led to it.
        replica_states: How many replicas are in which state.
        message: The reason, in words; "" where all is well.
    """

    status: DeploymentStatus
    status_trigger: DeploymentStatusTrigger
    replica_states: dict[ReplicaState, int]
    message: str


@dataclass
class ApplicationStatusOverview:
    """How an application is doing.

    Args:
        status: Its status.
        message: The reason, in words; "" where all is well.
        last_deployed_time_s: When it was last run, in seconds since 1970.
        deployments: Its deployments by name.
    """

    status: ApplicationStatus
    message: str
    last_deployed_time_s: float
    deployments: dict[str, DeploymentStatusOverview]


@dataclass
class ServeStatus:
    """How everything that is being served is doing.

    Args:
        proxies: On which nodes HTTP is answered.
        applications: All applications by name.
        target_capacity: What the last config said of it, in percent; None: nothing.
    """

    proxies: dict[str, ProxyStatus] = field(default_factory=dict)
    applications: dict[str, ApplicationStatusOverview] = field(default_factory=dict)
    target_capacity: float | None = None
