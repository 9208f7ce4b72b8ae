"""What routers know of a deployment."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from skate.serve._routing.routed_replica import ReplicaEntry
from skate.serve.config import BackpressureConfig

if TYPE_CHECKING:
    from skate.serve._routing.user_routing import RouterPlan


class RoutingTable(NamedTuple):
    """Replicas and limits of a deployment, as the controller tells them to routers."""

    replicas: tuple[ReplicaEntry, ...] = ()
    max_ongoing_requests: int = 5
    max_queued_requests: int = -1
    backpressure: BackpressureConfig = BackpressureConfig()
    unavailable: str = ""  # why there will be no replicas
    metrics_interval_s: float = 0  # how often the load is to be told; 0: not at all
    router: RouterPlan | None = None  # a router of the user's that chooses
    version: str = ""  # the newest one, whose replicas may have yet to come
