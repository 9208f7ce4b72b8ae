"""Responses as arguments of other calls: the call is sent when they are there.

The values do not come here: what is sent along is the reference, and the replica that is called
reads the value, or fails with its error.
"""

from __future__ import annotations

import threading

from skate.exceptions import ActorError, TaskError
from skate.serve._routing.requests import RequestFailure, RoutedRequest
from skate.serve._routing.responses import DeploymentResponse, DeploymentResponseGenerator
from skate.serve.exceptions import SkateServeError


def assign_with_arguments(request: RoutedRequest) -> None:
    """Assign the request once all responses among its arguments have come."""
    responses = [
        value
        for value in (*request.args, *request.kwargs.values())
        if isinstance(value, (DeploymentResponse, DeploymentResponseGenerator))
    ]
    if any(isinstance(response, DeploymentResponseGenerator) for response in responses):
        error = RuntimeError(
            "a streaming response has many results, which cannot be passed to downstream handle "
            "calls as one: collect the items first, or call without stream=True"
        )
        request.settle(RequestFailure(error))
        return
    _Arguments(request, len(responses)).wait_for(responses)


class _Arguments:
    def __init__(self, request: RoutedRequest, missing: int) -> None:
        self._request = request
        self._missing = missing
        self._lock = threading.Lock()

    def wait_for(self, responses: list[DeploymentResponse | DeploymentResponseGenerator]) -> None:
        for response in responses:
            response._request.when_settled(self._one_is_there)

    def _one_is_there(self) -> None:
        with self._lock:
            self._missing -= 1
            if self._missing:
                return
        request = self._request
        try:
            request.args = tuple(map(_argument, request.args))
            request.kwargs = {key: _argument(value) for key, value in request.kwargs.items()}
        except ActorError as error:
            request.settle(RequestFailure(self._explained(error)))
            return
        except Exception as error:
            request.settle(RequestFailure(error))
            return
        if not request.cancelled:
            request.router.assign(request)

    def _explained(self, error: ActorError) -> Exception:
        """Say whose replica died, which is not to be seen from its error."""
        if isinstance(error, TaskError):
            return error
        values = (*self._request.args, *self._request.kwargs.values())
        others = [v._request.router.id for v in values if isinstance(v, DeploymentResponse)]
        return SkateServeError(
            f"{self._request.router.id} was not called: its argument was to come from "
            f"{' or '.join(map(str, others))}, and there the replica died: {error}"
        )


def _argument(value: object) -> object:
    if not isinstance(value, DeploymentResponse):
        return value
    outcome = value._outcome()  # or its error
    return outcome if value._request.ref is None else value._request.ref
