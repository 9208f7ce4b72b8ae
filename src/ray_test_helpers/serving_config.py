"""`ray.serve._private.config`: the options of deployments as Ray's tests look at them.

Importing this module lets deployments have `_deployment_config`, and routers of handles
`_asyncio_router`, by which tests find replicas. Programs that import `ray.serve` do not.
"""

from __future__ import annotations

import json
from typing import Any

from skate.serve._application.options import check, resolve
from skate.serve._deployment import Deployment
from skate.serve._identity import ReplicaID
from skate.serve._routing.router import Router
from skate.serve.request_router import RunningReplica

__all__ = ["DeploymentConfig"]


class DeploymentConfig:
    """The options of a deployment, and which of them were given."""

    def __init__(self, **given: Any) -> None:
        self._given = check(given)
        self.user_configured_option_names = set(given)

    @classmethod
    def from_default(cls, **given: Any) -> DeploymentConfig:
        return cls(**given)

    @classmethod
    def from_proto_bytes(cls, packed: bytes) -> DeploymentConfig:
        given, names = json.loads(packed)
        config = cls(**given)
        config.user_configured_option_names = set(names)
        return config

    def to_proto_bytes(self) -> bytes:
        said = (self._given, sorted(self.user_configured_option_names))
        return json.dumps(said, default=_plain).encode()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "_given":
            raise AttributeError(name)
        if name in self._given:
            return self._given[name]
        scaled = {"autoscaling_config": "autoscaling", "logging_config": "logging"}
        return getattr(resolve(self._given), scaled.get(name, name), None)


def _plain(value: Any) -> Any:
    """Return what JSON has for settings, and for functions and classes their import paths."""
    if hasattr(value, "model_dump"):
        return value.model_dump()
    if callable(value):
        return f"{value.__module__}:{value.__qualname__}"
    raise TypeError(
        f"options of a deployment become bytes as JSON, which has no {type(value).__name__}; got "
        f"{value!r}"
    )


def _config_of(deployment: Deployment) -> DeploymentConfig:
    config = deployment.__dict__.get("_as_config")
    if config is None:
        config = deployment.__dict__["_as_config"] = DeploymentConfig(**deployment._given)
        if deployment.name != getattr(deployment.func_or_class, "__name__", None):
            config.user_configured_option_names.add("name")
    found: DeploymentConfig = config
    return found


Deployment._deployment_config = property(_config_of)  # type: ignore[attr-defined]


class AsyncioRouter:
    """The router of a handle, as far as it tells of replicas and of requests that wait."""

    def __init__(self, router: Router) -> None:
        self._router = router

    @property
    def _request_router(self) -> AsyncioRouter:
        return self

    request_router = _request_router

    @property
    def curr_replicas(self) -> dict[ReplicaID, RunningReplica]:
        table = self._router.table
        most = 0 if table is None else table.max_ongoing_requests
        shown = [RunningReplica(self._router.id, each, most) for each in self._router._replicas]
        return {each.replica_id: each for each in shown}

    _replicas = curr_replicas

    @property
    def _metrics_manager(self) -> AsyncioRouter:
        return self

    @property
    def num_queued_requests(self) -> int:
        return self._router.waiting()


Router._asyncio_router = property(AsyncioRouter)  # type: ignore[attr-defined]
