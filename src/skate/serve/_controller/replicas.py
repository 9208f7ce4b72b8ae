"""Replicas as the controller sees them, and what it may want done with them."""

from __future__ import annotations

from typing import NamedTuple

from skate.serve._application.options import DeploymentOptions
from skate.serve._application.specs import DeploymentSpec
from skate.serve._identity import ReplicaID
from skate.serve._status import ReplicaState
from skate.serve.gang import GangContext


class ReplicaRecord:
    """One replica."""

    def __init__(
        self,
        id: ReplicaID,
        version: str,
        options: DeploymentOptions,
        rank: int,
        now: float,
        gang: GangContext | None = None,
    ) -> None:
        self.id = id
        self.gang = gang
        self.version = version
        self.options = options  # those it has, or is being given
        self.rank = rank
        self.state = ReplicaState.STARTING
        self.since = now
        self.models: tuple[str, ...] = ()
        self.stats = b""  # for routers of the user's, packed
        self.metadata = b""  # likewise
        self.health_failures = 0
        self.unhealthy = False

    @property
    def serves(self) -> bool:
        return not self.unhealthy and self.state in (ReplicaState.RUNNING, ReplicaState.UPDATING)

    def make_outdated(self) -> None:
        """Have it replaced, as one of an earlier version is."""
        self.version = ""


class StartReplica(NamedTuple):
    id: ReplicaID
    spec: DeploymentSpec
    rank: int
    world_size: int
    gang: GangContext | None = None


class ReconfigureReplica(NamedTuple):
    id: ReplicaID
    options: DeploymentOptions


class StopReplica(NamedTuple):
    """Let a replica finish what it has, for so many seconds at most; 0: kill it.

    If it `refuses_late_requests`, it stays a moment longer, to refuse what routers sent before
    they heard of its end.
    """

    id: ReplicaID
    grace_seconds: float
    refuses_late_requests: bool


Action = StartReplica | ReconfigureReplica | StopReplica
