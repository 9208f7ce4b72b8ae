"""Handles to deployments, and the responses that their calls return."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Generator, Iterable, Iterator
from contextlib import asynccontextmanager
from typing import Any, NoReturn

import skate
from skate._core.argument_checks import wrong_value
from skate.exceptions import GetTimeoutError
from skate.serve import _client
from skate.serve._identity import DEFAULT_APP, DeploymentID
from skate.serve._routing.broadcast import Broadcast
from skate.serve._routing.event_loops import refuse_event_loop
from skate.serve._routing.replica_selection import ReplicaSelection, choose
from skate.serve._routing.requests import NOT_YET, RequestFailure, RoutedRequest
from skate.serve._routing.router import Router
from skate.serve.context import RequestContext, request_context
from skate.serve.exceptions import RequestCancelledError, SkateServeError

__all__ = ["DeploymentHandle", "DeploymentResponse", "DeploymentResponseGenerator"]

_SERIALIZATIONS = ("cloudpickle", "pickle", "msgpack", "orjson")
_INIT_SETTINGS = frozenset(("_prefer_local_routing", "_run_router_in_separate_loop", "_source"))


class _Response:
    """Base of both kinds of responses."""

    def __init__(self, request: RoutedRequest) -> None:
        self._request = request

    @property
    def request_id(self) -> str:
        """The id of the request, as the replica sees it."""
        return self._request.id

    @property
    def by_reference(self) -> bool:
        """Whether large results stay in shared memory until they are needed: always."""
        return True

    @property
    def is_settled(self) -> bool:
        """Whether nothing more will come."""
        return self._request.answered or self._request.outcome is not NOT_YET

    def cancel(self) -> None:
        """Try to stop the request: before it is sent or, in async code, while it runs."""
        if not self._request.cancelled:
            self._request.router.cancel(self._request)

    def cancelled(self) -> bool:
        """Return whether `cancel` was called; the request may have been answered all the same."""
        return self._request.cancelled

    def __reduce__(self) -> NoReturn:
        raise SkateServeError(
            f"a `{type(self).__name__}` is not serializable: give it to another handle's call as "
            "an argument of its own, not inside a list or dictionary; or get its value first"
        )

    def _sent(self, timeout: float | None) -> Any:
        """Return the reference of the call, once it is sent; None if there is an outcome."""
        request = self._request
        while request.ref is None and request.outcome is NOT_YET:
            with request.router.lock:
                sent = request.sent()
            try:
                sent.result(timeout)
            except TimeoutError:
                raise self._late(timeout) from None
        return request.ref

    async def _sent_async(self) -> Any:
        request = self._request
        while request.ref is None and request.outcome is NOT_YET:
            with request.router.lock:
                sent = request.sent()
            await asyncio.shield(asyncio.wrap_future(sent))
        return request.ref

    def _late(self, timeout: float | None) -> TimeoutError:
        return GetTimeoutError(f"request {self._request.id} had no result within {timeout} s")


class DeploymentResponse(_Response):
    """The result of a call on a handle, to be awaited, or waited for by `result()`.

    Give it to another handle's call as an argument: the value goes there without coming here.

    Args:
        request: The call, which is made by a handle.
    """

    def result(self, timeout_s: float | None = None, *, _skip_asyncio_check: bool = False) -> Any:
        """Wait for the result, and return it or raise its error.

        Args:
            timeout_s: Seconds to wait at the most; None, the default, waits for ever.
            _skip_asyncio_check: Whether to wait even inside of an event loop, which then stops.

        Raises:
            TimeoutError: If there is no result in that time; the request goes on.
            RuntimeError: Inside of an event loop, where it is to be awaited.
            RequestCancelledError: If it was cancelled.
            BackPressureError: If too many requests wait.
        """
        if not _skip_asyncio_check:
            refuse_event_loop("`await response`")
        request = self._request
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        while request.outcome is NOT_YET:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            ref = self._sent(left)
            request.claimed = True
            if request.outcome is not NOT_YET or ref is None:
                continue
            try:
                answer = skate.get(ref, timeout=left)
            except GetTimeoutError as error:
                if _is_own(error):
                    request.router.release_claim(request)
                    raise self._late(timeout_s) from None
                request.router.handle_failure(request, ref, error)
            except Exception as error:
                request.router.handle_failure(request, ref, error)
            except BaseException:
                request.router.release_claim(request)
                raise
            else:
                request.router.handle_answer(request, ref, answer)
        return self._outcome()

    def __await__(self) -> Generator[Any, None, Any]:
        return self._fetch().__await__()

    async def _fetch(self) -> Any:
        request = self._request
        while request.outcome is NOT_YET:
            ref = request.ref or await self._sent_async()
            request.claimed = True
            if request.outcome is not NOT_YET or ref is None:
                continue
            try:
                answer = await ref
            except asyncio.CancelledError:
                request.router.release_claim(request)
                raise
            except Exception as error:
                request.router.handle_failure(request, ref, error)
            else:
                request.router.handle_answer(request, ref, answer)
        return self._outcome()

    def _outcome(self) -> Any:
        outcome = self._request.outcome
        if type(outcome) is RequestFailure:
            raise outcome.error
        return outcome

    async def _to_object_ref(self) -> Any:
        """Return the reference behind the response, once a replica has taken the request."""
        return await self._sent_async() or skate.put(self._outcome())

    def _to_object_ref_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> Any:
        if not _allow_running_in_asyncio_loop:
            refuse_event_loop("`await response._to_object_ref()`")
        return self._sent(_timeout_s) or skate.put(self._outcome())

    def __repr__(self) -> str:
        return f"DeploymentResponse({self._request.method!r}, {self._request.id})"


def _is_own(error: GetTimeoutError) -> bool:
    """Return whether it is our own wait that took too long, not one inside the replica."""
    return not isinstance(error, skate.exceptions.TaskError)


class DeploymentResponseGenerator(_Response):
    """The items that a streaming call yields, each as soon as it is there.

    Iterate with `async for` inside async code, with `for` elsewhere.

    Args:
        request: The call, which is made by a handle.
    """

    def __init__(self, request: RoutedRequest) -> None:
        super().__init__(request)
        self._items: Any = None  # the replica's, once it has taken the request

    def __iter__(self) -> Iterator[Any]:
        return self

    def __aiter__(self) -> AsyncIterator[Any]:
        return self

    def __next__(self) -> Any:
        refuse_event_loop("`async for`")
        self._open()
        try:
            return skate.get(next(self._items))
        except StopIteration:
            raise
        except Exception as error:
            raise self._own(error) from None

    async def __anext__(self) -> Any:
        await self._open_async()
        try:
            return await (await self._items.__anext__())
        except StopAsyncIteration:
            raise
        except Exception as error:
            raise self._own(error) from None

    def _open(self) -> None:
        """Wait until a replica has taken the request."""
        self._raise_if_cancelled()
        while self._items is None:
            items = self._sent(None)
            self._raise_failure()
            try:
                self._look(items, skate.get(next(items)))
            except Exception as error:
                self._failed(items, error)

    async def _open_async(self) -> None:
        self._raise_if_cancelled()
        while self._items is None:
            items = await self._sent_async()
            self._raise_failure()
            try:
                self._look(items, await (await items.__anext__()))
            except Exception as error:
                self._failed(items, error)

    def _raise_if_cancelled(self) -> None:
        if self._request.cancelled:
            raise RequestCancelledError(self._request.id)

    def _look(self, items: skate.ObjectRefGenerator[Any], first: object) -> None:
        """Look at the first item, which only says whether the replica takes the request."""
        if first is None:
            self._items = items
        else:
            self._request.router.handle_answer(self._request, items, first)

    def _failed(self, items: skate.ObjectRefGenerator[Any], error: Exception) -> None:
        self._request.router.handle_failure(self._request, items, error)
        self._raise_failure()

    def _raise_failure(self) -> None:
        outcome = self._request.outcome
        if type(outcome) is RequestFailure:
            raise outcome.error

    def _own(self, error: Exception) -> Exception:
        cancelled = isinstance(error, skate.exceptions.TaskCancelledError)
        if cancelled and not isinstance(error, skate.exceptions.TaskError):
            return RequestCancelledError(self._request.id)
        return error

    async def _to_object_ref_gen(self) -> Any:
        """Return the references to the items, once a replica has taken the request."""
        await self._open_async()
        return self._items

    def _to_object_ref_gen_sync(
        self, _timeout_s: float | None = None, _allow_running_in_asyncio_loop: bool = False
    ) -> Any:
        if not _allow_running_in_asyncio_loop:
            refuse_event_loop("`await response._to_object_ref_gen()`")
        self._open()
        return self._items

    def __await__(self) -> NoReturn:
        raise TypeError("a streaming response cannot be awaited: use `async for item in response`")

    def result(
        self, timeout_s: float | None = None, *, _skip_asyncio_check: bool = False
    ) -> NoReturn:
        """Raise a TypeError, as a stream has many results.

        Args:
            timeout_s: Without effect.
            _skip_asyncio_check: Without effect.
        """
        raise TypeError(
            "a streaming response has many results: use `for item in response`, or a handle "
            "without stream=True"
        )

    def __repr__(self) -> str:
        return f"DeploymentResponseGenerator({self._request.method!r}, {self._request.id})"


class DeploymentHandle:
    """Calls a deployment: `handle.remote(...)`, `handle.method.remote(...)`.

    A handle can be passed to other deployments, tasks and actors.

    Args:
        deployment_name: The name of the deployment.
        app_name: The name of its application.
        method_name: Which method is called.
        stream: Whether the method is a generator, whose items are wanted as they come.
        multiplexed_model_id: Which model the requests are for.
        session_id: Which session the requests belong to; any replica may answer any session.

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
            session_id: Which session the requests belong to. No effect: any replica may answer
                any session.
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
        if router is None or router.closed:
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
            around.request_id or str(uuid.uuid4()),
            self._method_name,
            args,
            kwargs,
            self._model_id,
            self._stream,
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
            around.request_id or str(uuid.uuid4()),
            selection.method_name,
            args,
            kwargs,
            selection.model_id,
            selection.stream,
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
        from skate.serve._routing.response_arguments import assign_with_arguments

        assign_with_arguments(request)
    else:
        request.router.assign(request)
    return response


def _has_response(values: Iterable[object]) -> bool:
    for value in values:
        if isinstance(value, _Response):
            return True
    return False
