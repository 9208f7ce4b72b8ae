"""Serving: classes and functions as deployments, answered by replicas, over handles and HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from skate.serve._api import (
        RunTarget,
        delete,
        get_app_handle,
        get_deployment_handle,
        run,
        run_many,
        shutdown,
        shutdown_async,
        start,
        status,
    )
    from skate.serve._deployment import Application, Deployment, deployment
    from skate.serve._http.address import http_address
    from skate.serve._http.ingress import ingress
    from skate.serve.air_integrations import PredictorDeployment
    from skate.serve.batching import batch
    from skate.serve.config import ControllerOptions, HTTPOptions
    from skate.serve.context import get_replica_context
    from skate.serve.multiplex import get_multiplexed_model_id, multiplexed

__all__ = [
    "Application",
    "ControllerOptions",
    "Deployment",
    "HTTPOptions",
    "PredictorDeployment",
    "RunTarget",
    "batch",
    "delete",
    "deployment",
    "get_app_handle",
    "get_deployment_handle",
    "get_multiplexed_model_id",
    "get_replica_context",
    "http_address",
    "ingress",
    "multiplexed",
    "run",
    "run_many",
    "shutdown",
    "shutdown_async",
    "start",
    "status",
]

_HOMES = {
    "Application": "_deployment",
    "ControllerOptions": "config",
    "Deployment": "_deployment",
    "HTTPOptions": "config",
    "PredictorDeployment": "air_integrations",
    "RunTarget": "_api",
    "batch": "batching",
    "delete": "_api",
    "deployment": "_deployment",
    "get_app_handle": "_api",
    "get_deployment_handle": "_api",
    "get_multiplexed_model_id": "multiplex",
    "get_replica_context": "context",
    "http_address": "_http.address",
    "ingress": "_http.ingress",
    "multiplexed": "multiplex",
    "run": "_api",
    "run_many": "_api",
    "_run": "_api",
    "_run_many": "_api",
    "shutdown_async": "_api",
    "shutdown": "_api",
    "start": "_api",
    "status": "_api",
}
_MODULES = frozenset(
    """
    air_integrations batching config context exceptions handle http_adapters metrics
    multiplex schema
    """.split()
)


def __getattr__(name: str) -> Any:
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f"skate.serve.{_HOMES[name]}"), name)
    if name in _MODULES:
        return import_module(f"skate.serve.{name}")
    from skate._facade.former_names import no_such_name

    raise AttributeError(no_such_name("serve", name, [*__all__, *_MODULES]))


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_MODULES})
