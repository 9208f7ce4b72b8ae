"""Where serving code runs: the replica around it and the request that it answers."""

from __future__ import annotations

import contextvars
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from skate.serve._identity import ReplicaID
from skate.serve._status import ReplicaRank
from skate.serve.exceptions import SkateServeError
from skate.serve.gang import GangContext

if TYPE_CHECKING:
    from skate.serve._application.options import DeploymentOptions

__all__ = [
    "GangContext",
    "ReplicaContext",
    "RequestContext",
    "get_replica_context",
    "get_trace_context",
    "request_context",
]


_FIRST = ReplicaRank(0)
_FORGET_EVERY_CALLS = 100


@dataclass
class ReplicaContext:
    """The replica that runs the calling code.

    Args:
        replica_id: Its name, and that of its deployment.
        servable_object: The user's instance or function; None while it is being made.
        options: Those of the deployment.
        rank: Its number among the replicas of the deployment.
        world_size: How many replicas were aimed at when it was started.
        models_changed: Called with the ids of the models that it has loaded.
        version: That of the deployment's code.
        gang_context: The replicas that it starts and ends with; None where it is on its own.
    """

    replica_id: ReplicaID
    servable_object: Any
    options: DeploymentOptions
    rank: ReplicaRank = _FIRST
    world_size: int = 1
    models_changed: Callable[[tuple[str, ...]], None] = lambda models: None
    version: str = ""
    gang_context: GangContext | None = None

    @property
    def app_name(self) -> str:
        """The name of the application."""
        return self.replica_id.deployment_id.app_name

    @property
    def deployment(self) -> str:
        """The name of the deployment."""
        return self.replica_id.deployment_id.name

    @property
    def replica_tag(self) -> str:
        """The name of the replica."""
        return self.replica_id.unique_id


@dataclass(unsafe_hash=True)  # frozen, making one would take four times as long
class RequestContext:
    """The request that the calling code answers; empty outside of requests.

    Args:
        route: The prefix of the application that was asked.
        request_id: The id of the request, the same for all calls that it makes.
        app_name: The name of the application.
        multiplexed_model_id: Which model it is for.
        session_id: Which session it belongs to.
        is_http_request: Whether it came by HTTP, and not by a handle.
        children: The calls that it has made.
        scope: What an ASGI application was called with, where one answers.
    """

    route: str = ""
    request_id: str = ""
    app_name: str = ""
    multiplexed_model_id: str = ""
    session_id: str = ""
    is_http_request: bool = False
    children: list[Any] = field(default_factory=list, compare=False, repr=False)
    scope: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def pattern(self) -> str:
        """The route, and the pattern of the path where an application like FastAPI's found one."""
        path = None if self.scope is None else getattr(self.scope.get("route"), "path", None)
        return self.route if path is None else self.route.rstrip("/") + path

    def add_child(self, response: object) -> None:
        """Note a call that is made for this request, and cancelled with it.

        A request may live long: now and then, those that were answered are forgotten.

        Args:
            response: The response to that call.
        """
        self.children.append(response)
        if len(self.children) % _FORGET_EVERY_CALLS == 0:
            self.children[:] = [child for child in self.children if not child.is_settled]


_replica_of_process: ReplicaContext | None = None
_replica: contextvars.ContextVar[ReplicaContext | None] = contextvars.ContextVar(
    "serve_replica", default=None
)
_request: contextvars.ContextVar[RequestContext | None] = contextvars.ContextVar(
    "serve_request", default=None
)
_batch: contextvars.ContextVar[list[RequestContext] | None] = contextvars.ContextVar(
    "serve_batch", default=None
)
_NO_REQUEST = RequestContext()


def current_replica() -> ReplicaContext | None:
    """Return the replica around this code; in a process of its own, every thread's."""
    return _replica.get() or _replica_of_process


def enter_replica(context: ReplicaContext, owns_process: bool) -> None:
    """Let this code, and in a process of its own all code, belong to the replica."""
    global _replica_of_process
    _replica.set(context)
    if owns_process:
        _replica_of_process = context


def get_replica_context() -> ReplicaContext:
    """Return the replica that runs this code.

    Raises:
        SkateServeError: Outside of a replica.
    """
    context = current_replica()
    if context is None:
        raise SkateServeError(
            "get_replica_context() can only be called from within a replica, by the code of a "
            "deployment; this code runs in none"
        )
    return context


def get_trace_context() -> Any:
    """Return the context of OpenTelemetry in which this code runs, for spans of its own.

    Returns:
        What `start_as_current_span(context=...)` takes; None outside of a trace. Traces begin
        where `init(_tracing_startup_hook=...)` sets OpenTelemetry up.
    """
    opentelemetry: Any = sys.modules.get("opentelemetry.context")  # without it there is no trace
    return (opentelemetry.get_current() or None) if opentelemetry else None


def request_context() -> RequestContext:
    """Return the request that this code answers; an empty one outside of requests."""
    return _request.get() or _NO_REQUEST


def set_scope(scope: Mapping[str, Any]) -> None:
    """Note what an ASGI application is called with to answer the request of this code."""
    context = _request.get()
    if context is not None:
        context.scope = scope


def request_with_pattern() -> RequestContext:
    """Return the request that this code answers, with the pattern of its path as the route.

    That is `/prefix/items/{id}` where an application like FastAPI's has found one.
    """
    context = request_context()
    return context if context.scope is None else replace(context, route=context.pattern)


def set_batch_requests(requests: list[RequestContext]) -> None:
    """Let the code that runs from here on answer these requests together."""
    _batch.set(requests)


def batch_requests() -> list[RequestContext]:
    """Return the requests that this code answers together, inside of a batch."""
    return _batch.get() or []


# What Ray calls them.
_RequestContext = RequestContext
_serve_request_context = _request
_get_internal_replica_context = current_replica
_get_serve_request_context = request_with_pattern
_get_serve_batch_request_context = batch_requests
