"""Serving: classes and functions as deployments, answered by replicas, over handles and HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate._core.public_names import lazy_names

if TYPE_CHECKING:
    from skate.serve import (
        air_integrations as air_integrations,
    )
    from skate.serve import (
        batching as batching,
    )
    from skate.serve import (
        config as config,
    )
    from skate.serve import (
        context as context,
    )
    from skate.serve import (
        deployment_graph as deployment_graph,
    )
    from skate.serve import (
        drivers as drivers,
    )
    from skate.serve import (
        exceptions as exceptions,
    )
    from skate.serve import (
        gradio_integrations as gradio_integrations,
    )
    from skate.serve import (
        grpc_util as grpc_util,
    )
    from skate.serve import (
        handle as handle,
    )
    from skate.serve import (
        http_adapters as http_adapters,
    )
    from skate.serve import (
        metrics as metrics,
    )
    from skate.serve import (
        multiplex as multiplex,
    )
    from skate.serve import (
        schema as schema,
    )
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
    from skate.serve._grpc.start import grpc_address
    from skate.serve._http.address import http_address
    from skate.serve._http.ingress import ingress
    from skate.serve._replica.deployment_actors import (
        get_deployment_actor,
        get_deployment_actor_context,
    )
    from skate.serve.air_integrations import PredictorDeployment
    from skate.serve.batching import batch
    from skate.serve.config import ControllerOptions, HTTPOptions
    from skate.serve.context import get_replica_context, get_trace_context
    from skate.serve.drivers import DAGDriver
    from skate.serve.multiplex import get_multiplexed_model_id, multiplexed
else:
    __getattr__, __dir__ = lazy_names(__name__)

__all__ = [
    "Application",
    "ControllerOptions",
    "DAGDriver",
    "Deployment",
    "HTTPOptions",
    "PredictorDeployment",
    "RunTarget",
    "batch",
    "delete",
    "deployment",
    "get_app_handle",
    "get_deployment_actor",
    "get_deployment_actor_context",
    "get_deployment_handle",
    "get_multiplexed_model_id",
    "get_replica_context",
    "get_trace_context",
    "grpc_address",
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
