"""What the controller wants to know of a replica."""

from __future__ import annotations

from typing import NamedTuple

from skate.serve._application.options import DeploymentOptions
from skate.serve.gang import GangContext


class ReplicaInfo(NamedTuple):
    """What a replica says of itself when it has started, or has other options."""

    version: str
    options: DeploymentOptions
    checks_health: bool
    owns_process: bool
    models: tuple[str, ...]
    address: str | None  # where it takes connections of others, if it answers HTTP
    metadata: bytes = b""  # what its code says of it, packed, for routers of the user's
    docs_path: str | None = None  # where a FastAPI application documents itself
    gang: GangContext | None = None  # the replicas that it starts and ends with
