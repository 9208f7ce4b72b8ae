"""What can go wrong in serving, as a tree.

SkateServeError (RayServeException)
├── gRPCStatusError                  what failed had set the status of its call by gRPC
├── BackPressureError                more requests wait than max_queued_requests allows
├── RequestCancelledError            also a skate.exceptions.TaskCancelledError
├── NoSuchDeploymentError            also a KeyError
├── DeploymentUnavailableError       the deployment failed to start, or was deleted
├── ReplicaUnavailableError          the chosen replica is gone
└── AddressUnavailableError          nothing can listen there; also a RuntimeError
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from skate.exceptions import TaskCancelledError

if TYPE_CHECKING:
    import grpc

    from skate.serve._identity import DeploymentID

__all__ = [
    "AddressUnavailableError",
    "BackPressureError",
    "DeploymentUnavailableError",
    "NoSuchDeploymentError",
    "RayServeException",
    "ReplicaUnavailableError",
    "RequestCancelledError",
    "SkateServeError",
    "gRPCStatusError",
]


class SkateServeError(Exception):
    """The root: `except SkateServeError` catches whatever skate.serve itself raises."""


class AddressUnavailableError(SkateServeError, RuntimeError):
    """Requests cannot be listened for where they are to be: the port is taken, above all."""


class BackPressureError(SkateServeError):
    """A handle has `max_queued_requests` requests that wait for a replica, and got another.

    Args:
        num_queued_requests: How many wait.
        max_queued_requests: How many may.
        status_code: What HTTP answers with.
        retry_after_s: The seconds of its `Retry-After`, if it has one.
    """

    status_code: int
    retry_after_s: float | None

    def __init__(
        self,
        num_queued_requests: int,
        max_queued_requests: int,
        status_code: int = 503,
        retry_after_s: float | None = None,
    ) -> None:
        super().__init__(num_queued_requests, max_queued_requests, status_code, retry_after_s)
        self.num_queued_requests = num_queued_requests
        self.max_queued_requests = max_queued_requests
        self.status_code = status_code
        self.retry_after_s = retry_after_s

    @property
    def message(self) -> str:
        """What happened, in words."""
        return (
            "Request dropped due to backpressure: all replicas are busy "
            f"(num_queued_requests={self.num_queued_requests}, "
            f"max_queued_requests={self.max_queued_requests})."
        )

    def __str__(self) -> str:
        return self.message


class RequestCancelledError(SkateServeError, TaskCancelledError):
    """The request was cancelled, before or while it ran.

    Args:
        request_id: The id of the request, if it is known.
    """

    def __init__(self, request_id: str | None = None) -> None:
        Exception.__init__(self, request_id)
        self.request_id = request_id
        self.task_id: None = None
        self.error_message: str = str(self)

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.request_id,)

    def __str__(self) -> str:
        return (
            f"Request {self.request_id} was cancelled."
            if self.request_id
            else ("Request was cancelled.")
        )


class NoSuchDeploymentError(SkateServeError, KeyError):
    """There is no deployment of the name that a handle was asked for."""

    __str__ = Exception.__str__  # a KeyError shows its text in quotes


class DeploymentUnavailableError(SkateServeError):
    """No replica of the deployment will come: it failed to start, or was deleted.

    Args:
        deployment_id: The deployment.
        reason: Why; it may have a traceback of the user's code.
    """

    def __init__(self, deployment_id: DeploymentID, reason: str = "it failed to deploy") -> None:
        super().__init__(deployment_id, reason)
        self.deployment_id = deployment_id
        self.reason = reason

    @property
    def message(self) -> str:
        """What happened, in words."""
        return f"{self.deployment_id} is unavailable because {self.reason}."

    @property
    def public_message(self) -> str:
        """What anybody may know: the reason may have a traceback of the user's code."""
        return f"{self.deployment_id} is unavailable."

    def __str__(self) -> str:
        return self.message


class ReplicaUnavailableError(SkateServeError):
    """The chosen replica is gone.

    Args:
        replica_id: The name of the replica.
    """

    def __init__(self, replica_id: str) -> None:
        super().__init__(replica_id)
        self.replica_id = replica_id

    @property
    def message(self) -> str:
        """What happened, in words."""
        return f"Replica {self.replica_id} is no longer available."

    def __str__(self) -> str:
        return self.message


class gRPCStatusError(SkateServeError):  # noqa: N801 - the name is Ray's
    """The code of a deployment raised an error, after it had set the status of its call by gRPC.

    Args:
        original_exception: The error.
        code: The status code that it had set.
        details: The text that it had set.
    """

    def __init__(
        self,
        original_exception: BaseException,
        code: grpc.StatusCode | None = None,
        details: str | None = None,
    ) -> None:
        super().__init__(original_exception, code, details)
        self.original_exception = original_exception
        self.grpc_code = code
        self.grpc_details = details

    def __str__(self) -> str:
        return str(self.original_exception)


RayServeException = SkateServeError
