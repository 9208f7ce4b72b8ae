"""One call to every replica of a deployment."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator
from typing import Any

import skate
from skate._core.argument_checks import seconds
from skate.exceptions import GetTimeoutError, TaskError
from skate.serve._identity import new_request_id
from skate.serve._routing.requests import Arguments, NamedArguments
from skate.serve._routing.responses import refuse_event_loop
from skate.serve._routing.router import Router
from skate.serve.context import request_context


class Broadcast:
    """The answers of all replicas that there are; those that start later are not asked."""

    def __init__(
        self, router: Router, method: str, args: Arguments, kwargs: NamedArguments
    ) -> None:
        self.request_id: str = new_request_id()
        router.wait_for_table()
        call = (method, self.request_id, request_context().pattern, "", *args)
        self._refs = [replica.handle_anyway.remote(*call, **kwargs) for replica in router.actors()]

    def results(
        self, *, timeout_s: float | None = None, return_exceptions: bool = False
    ) -> list[object]:
        """Wait for the answers, and return one per replica.

        Args:
            timeout_s: Seconds for all of them together; TimeoutError after that.
            return_exceptions: Whether errors are returned among the answers; else the first is
                raised.
        """
        refuse_event_loop("`await response.results_async()`")
        seconds("timeout_s", timeout_s)
        deadline = None if timeout_s is None else time.monotonic() + timeout_s
        found: list[Any] = []
        for ref in self._refs:
            left = None if deadline is None else max(0.0, deadline - time.monotonic())
            try:
                found.append(skate.get(ref, timeout=left))
            except GetTimeoutError as error:
                if not isinstance(error, TaskError):
                    raise self._late(timeout_s) from None
                found.append(_returned(error, return_exceptions))
            except Exception as error:
                found.append(_returned(error, return_exceptions))
        return found

    async def results_async(
        self, *, timeout_s: float | None = None, return_exceptions: bool = False
    ) -> list[object]:
        """Wait for the answers, as `results` does, for async code.

        Args:
            timeout_s: Seconds for all of them together; TimeoutError after that.
            return_exceptions: Whether errors are returned among the answers.
        """
        seconds("timeout_s", timeout_s)
        answers = asyncio.gather(
            *(ref.as_future() for ref in self._refs), return_exceptions=return_exceptions
        )
        done, _ = await asyncio.wait([answers], timeout=timeout_s)
        if not done:
            answers.cancel()
            raise self._late(timeout_s)
        return list(answers.result())

    def _late(self, timeout_s: float | None) -> TimeoutError:
        return TimeoutError(f"not all replicas answered within {timeout_s} s")

    def __await__(self) -> Generator[object, None, list[object]]:
        return self.results_async().__await__()


def _returned(error: Exception, return_exceptions: bool) -> Exception:
    if not return_exceptions:
        raise error
    return error
