"""Handles to deployments; what their calls return is in `_routing/responses.py`."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any

from skate._core.argument_checks import wrong_value
from skate._core.public_names import name_publicly
from skate.serve import _client
from skate.serve._identity import DEFAULT_APP, DeploymentID, new_request_id
from skate.serve._routing.broadcast import Broadcast
from skate.serve._routing.replica_selection import ReplicaSelection, choose
from skate.serve._routing.requests import RoutedRequest
from skate.serve._routing.response_arguments import assign_with_arguments
from skate.serve._routing.responses import (
    DeploymentResponse,
    DeploymentResponseGenerator,
    Response,
)
from skate.serve._routing.router import Router
from skate.serve.context import RequestContext, request_context

__all__ = ["DeploymentHandle", "DeploymentResponse", "DeploymentResponseGenerator"]

_SERIALIZATIONS = ("cloudpickle", "pickle", "msgpack", "orjson")
_INIT_SETTINGS = frozenset(("_prefer_local_routing", "_run_router_in_separate_loop", "_source"))


class DeploymentHandle:
    """Calls a deployment: `handle.remote(...)`, `handle.method.remote(...)`.

    A handle can be passed to other deployments, tasks and actors.

    Args:
        deployment_name: The name of the deployment.
        app_name: The name of its application.
        method_name: Which method is called.
        stream: Whether the method is a generator, whose items are wanted as they come.
        multiplexed_model_id: Which model the requests are for.
        session_id: Which session the requests belong to, for routers of your own.

    Example:
        >>> from skate import serve
        >>> @serve.deployment
        ... class Greeter:
        ...     def greet(self, name: str) -> str:
        ...         return f"hello {name}"
        >>> handle = serve.run(Greeter.bind(), route_prefix=None)
        >>> handle.greet.remote("you").result()
        'hello you'
    """

    def __init__(
        self,
        deployment_name: str,
        app_name: str = DEFAULT_APP,
        *,
        method_name: str = "__call__",
        stream: bool = False,
        multiplexed_model_id: str = "",
        session_id: str = "",
    ) -> None:
        self.deployment_id: DeploymentID = DeploymentID(deployment_name, app_name)
        self._method_name = method_name
        self._stream = stream
        self._model_id = multiplexed_model_id
        self._session_id = session_id
        self._router: Router | None = None
        self._is_new = True  # neither used nor changed

    @property
    def deployment_name(self) -> str:
        """The name of the deployment."""
        return self.deployment_id.name

    @property
    def app_name(self) -> str:
        """The name of the application."""
        return self.deployment_id.app_name

    @property
    def is_initialized(self) -> bool:
        """Whether it has been called, and knows its replicas."""
        return self._router is not None

    def running_replicas_populated(self) -> bool:
        """Return whether it knows a replica to call; it waits for one with the first call."""
        return self._router is not None and self._router.has_replicas()

    def options(
        self,
        *,
        method_name: str | None = None,
        multiplexed_model_id: str | None = None,
        session_id: str | None = None,
        stream: bool | None = None,
        use_new_handle_api: bool = True,
        _prefer_local_routing: bool = False,
        _by_reference: bool = True,
        request_serialization: str | None = None,
        response_serialization: str | None = None,
    ) -> DeploymentHandle:
        """Return the same handle with some options changed; this one stays as it is.

        Args:
            method_name: Which method is called.
            multiplexed_model_id: Which model the requests are for: replicas that have it are
                preferred.
            session_id: Which session the requests belong to, for routers of your own; otherwise
                any replica may answer any session.
            stream: Whether the method is a generator, whose items are wanted as they come.
            use_new_handle_api: No effect: all handles are new ones.
            request_serialization: No effect: large values are in shared memory.
            response_serialization: No effect: large values are in shared memory.
            _prefer_local_routing: No effect: all replicas are near.
            _by_reference: No effect: large values are in shared memory.

        Raises:
            ValueError: If a serialization has another name than Ray's.
        """
        for serialization in (request_serialization, response_serialization):
            if serialization not in (None, *_SERIALIZATIONS):
                raise wrong_value("a serialization", serialization, f"one of {_SERIALIZATIONS}")
        copy = object.__new__(DeploymentHandle)
        copy.__dict__.update(self.__dict__)
        copy._is_new = False
        if method_name is not None:
            copy._method_name = method_name
        if multiplexed_model_id is not None:
            copy._model_id = multiplexed_model_id
        if session_id is not None:
            copy._session_id = session_id
        if stream is not None:
            copy._stream = stream
        return copy

    def _init(self, **settings: object) -> None:
        """Find the replicas now, and not with the first call.

        The settings say which of many machines to prefer and on which loop to route; here there is
        nothing to choose.
        """
        if self._router is not None or not self._is_new:
            raise RuntimeError(
                f"{self!r} has been initialized: by _init(), options() or a call; call _init() "
                "before them, and once"
            )
        unknown = settings.keys() - _INIT_SETTINGS
        if unknown:
            raise TypeError(f"_init() takes {', '.join(_INIT_SETTINGS)}; got {sorted(unknown)}")
        self._router = _client.router_of(self.deployment_id)

    def broadcast(self, method_name: str, /, *args: object, **kwargs: object) -> Broadcast:
        """Call a method of every replica that there is.

        Args:
            method_name: The method.
            args: Its arguments.
            kwargs: Named ones.

        Returns:
            An object whose `results()` waits for all answers.
        """
        router = self._find_router()
        return Broadcast(router, method_name, args, kwargs)

    def shutdown(self) -> None:
        """Let go of what this handle knows of its replicas.

        Requests under way go on, and a later call finds the replicas again.
        """
        self._router = None

    async def shutdown_async(self) -> None:
        """Let go of what this handle knows, as `shutdown` does, in async code."""
        self.shutdown()

    def _find_router(self) -> Router:
        router = self._router
        if router is None or router.closed or router.is_orphan:
            router = self._router = _client.router_of(self.deployment_id)
        return router

    def __getattr__(self, name: str) -> DeploymentHandle:
        if name.startswith("__") and name != "__call__":
            raise AttributeError(name)
        if "deployment_id" not in self.__dict__:
            raise AttributeError(name)
        return self.options(method_name=name)

    def remote(self, /, *args: object, **kwargs: object) -> Any:
        """Call the deployment.

        Args:
            args: Arguments of the call; responses among them are waited for, and go to the
                replica without coming here.
            kwargs: Named ones.

        Returns:
            A response, at once: `DeploymentResponse`, or `DeploymentResponseGenerator` of a
            handle with `stream=True`.
        """
        around = request_context()
        request = RoutedRequest(
            self._find_router(),
            around.request_id or new_request_id(),
            self._method_name,
            args,
            kwargs,
            self._model_id,
            self._stream,
            self._session_id,
            around.pattern,
        )
        return _start(request, around)

    @asynccontextmanager
    async def choose_replica(
        self, *args: object, **kwargs: object
    ) -> AsyncIterator[ReplicaSelection]:
        """Reserve room at a replica, for a request that `dispatch` sends there.

        The room is given back when the block ends without. What is called is what this handle
        calls.

        Args:
            args: For routers that look at them; the one of skate.serve does not.
            kwargs: Likewise.

        Example:
            async with handle.predict.choose_replica() as selection:
                answer = await handle.predict.dispatch(selection, selection.replica_id)
        """
        selection = await choose(
            self._find_router(), self._method_name, self._model_id, self._stream
        )
        try:
            yield selection
        finally:
            selection.give_back()

    def dispatch(self, selection: ReplicaSelection, /, *args: object, **kwargs: object) -> Any:
        """Send a request to the replica that was chosen.

        Args:
            selection: From `choose_replica` of a handle to the same deployment, for one request.
            args: Arguments of the call.
            kwargs: Named ones.

        Returns:
            A response, as `remote` does.

        Raises:
            ValueError: If the selection is of another deployment, or was used.
            ReplicaUnavailableError: By the response, if the replica is gone.
        """
        if selection.deployment_id != self.deployment_id:
            raise ValueError(
                f"a selection of {selection.deployment_id} cannot be dispatched by a handle to "
                f"{self.deployment_id}: use a handle to the same deployment"
            )
        around = request_context()
        request = RoutedRequest(
            self._find_router(),
            around.request_id or new_request_id(),
            selection.method_name,
            args,
            kwargs,
            selection.model_id,
            selection.stream,
            route=around.pattern,
        )
        selection.use(request)
        return _start(request, around)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeploymentHandle) and self.__reduce__() == other.__reduce__()

    def __hash__(self) -> int:
        return hash(self.deployment_id)

    def __repr__(self) -> str:
        return f"DeploymentHandle(deployment={self.deployment_name!r})"

    def __reduce__(self) -> tuple[object, ...]:
        state = (self._method_name, self._stream, self._model_id, self._session_id)
        return _restore, (*self.deployment_id, *state)


def _restore(
    name: str, app: str, method: str, stream: bool, model_id: str, session_id: str
) -> DeploymentHandle:
    return DeploymentHandle(
        name,
        app,
        method_name=method,
        stream=stream,
        multiplexed_model_id=model_id,
        session_id=session_id,
    )


def _start(
    request: RoutedRequest, around: RequestContext
) -> DeploymentResponse | DeploymentResponseGenerator:
    """Have the request assigned when its arguments are there, for the one that is `around`."""
    response = (DeploymentResponseGenerator if request.stream else DeploymentResponse)(request)
    if around.request_id:
        around.add_child(response)
    kwargs = request.kwargs
    if _has_response(request.args) or (kwargs and _has_response(kwargs.values())):
        assign_with_arguments(request)
    else:
        request.router.assign(request)
    return response


def _has_response(values: Iterable[object]) -> bool:
    for value in values:
        if isinstance(value, Response):
            return True
    return False


name_publicly(__name__)
