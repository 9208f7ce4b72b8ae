"""Responses: what calls of handles return, to be waited for, awaited or iterated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Generator, Iterator
from typing import Any, NoReturn

import skate
from skate._core.errors import without_own_frames
from skate._core.promised import Promised
from skate.exceptions import GetTimeoutError
from skate.serve._routing.requests import NOT_YET, RequestFailure, RoutedRequest
from skate.serve.exceptions import RequestCancelledError, SkateServeError


class Response:
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
        why = ""
        if self._request.ref is None:
            why = f": {self._request.why_unsent or 'no replica has taken it so far'}"
        return GetTimeoutError(
            f"request {self._request.id} had no result within {round(timeout or 0, 3)} s{why}"
        )


class DeploymentResponse(Response, Promised):
    """The result of a call on a handle, to be awaited, or waited for by `result()`.

    Give it to another handle's call as an argument: the value goes there without coming here.

    Args:
        request: The call, which is made by a handle.
    """

    def __getitem__(self, key: object) -> NoReturn:
        raise TypeError(
            f"[{key!r}] is for results, and a DeploymentResponse only stands for one: take its "
            "result(), or await it"
        )

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

    def _promised(self, timeout: float | None) -> Any:
        """Return the result to `get`, which Ray gave responses to until 2.9."""
        return self.result(timeout)

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
            raise without_own_frames(outcome.error)
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


class DeploymentResponseGenerator(Response):
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
            raise without_own_frames(outcome.error)

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
        raise TypeError(
            "a streaming response (`DeploymentResponseGenerator`) has many results, and cannot be "
            "awaited directly: take them with `async for item in response`"
        )

    def result(
        self, timeout_s: float | None = None, *, _skip_asyncio_check: bool = False
    ) -> NoReturn:
        """Raise a TypeError, as a stream has many results.

        Args:
            timeout_s: Without effect.
            _skip_asyncio_check: Without effect.
        """
        raise TypeError(
            "a streaming response (`DeploymentResponseGenerator`) has many results, and "
            "`.result()` is for one: use `for item in response`, in deployments `async for item "
            "in response`, or a handle without stream=True"
        )

    def __repr__(self) -> str:
        return f"DeploymentResponseGenerator({self._request.method!r}, {self._request.id})"


def refuse_event_loop(instead: str) -> None:
    """Raise a RuntimeError inside of async code, which should do this `instead`."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise RuntimeError(
        "sync methods wait, and should not be called from within an `asyncio` event loop, which "
        f"they would stop: use {instead}"
    )
