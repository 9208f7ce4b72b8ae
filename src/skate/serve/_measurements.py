"""What serve measures by itself, under the names that dashboards for Ray Serve know.

Requests are counted where they end, by what they have in common; families are made of that when
somebody collects them.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from skate._core.measurements import Family, Sample, histogram_samples
from skate.serve._status import ApplicationStatus, DeploymentStatus

if TYPE_CHECKING:
    from skate.serve._controller.applications import Applications
    from skate.serve._identity import ReplicaID
    from skate.serve._replica.actor import Replica
    from skate.serve._routing.router import Router
    from skate.serve.multiplex import LoadedModels

Key = tuple[str, ...]

_LIMITS_MS = (
    1, 2, 5, 10, 20, 50, 100, 200, 300, 400, 500, 1_000, 2_000, 5_000, 10_000, 60_000, 120_000,
    300_000, 600_000,
)  # fmt: skip
# How dashboards number what is going on; 0 is unknown.
_NUMBERS_OF_APPLICATIONS = {
    ApplicationStatus.DEPLOY_FAILED: 1,
    ApplicationStatus.UNHEALTHY: 2,
    ApplicationStatus.NOT_STARTED: 3,
    ApplicationStatus.DELETING: 4,
    ApplicationStatus.DEPLOYING: 5,
    ApplicationStatus.RUNNING: 6,
}
_NUMBERS_OF_DEPLOYMENTS = {
    DeploymentStatus.DEPLOY_FAILED: 1,
    DeploymentStatus.UNHEALTHY: 2,
    DeploymentStatus.UPDATING: 3,
    DeploymentStatus.UPSCALING: 4,
    DeploymentStatus.DOWNSCALING: 5,
    DeploymentStatus.HEALTHY: 6,
}
_FIRST_ERROR_STATUS = 400  # of HTTP


class AnsweredRequest(NamedTuple):
    """What requests that were answered have in common.

    Attributes:
        method: What was called.
        route: The prefix of the application, or the pattern that one like FastAPI's has found; ""
            where there is none.
        application: Who answered; "" if nobody is there.
        deployment: Its deployment in front.
        status: What it was answered with.
    """

    method: str
    route: str
    application: str
    deployment: str
    status: str

    @property
    def is_error(self) -> bool:
        """Whether the status, of HTTP or gRPC, is a failure."""
        if self.status.isdecimal():
            return int(self.status) >= _FIRST_ERROR_STATUS
        return self.status != "OK"


class _Times:
    __slots__ = ("answered", "counts", "failures", "milliseconds")

    def __init__(self) -> None:
        self.counts = [0] * (len(_LIMITS_MS) + 1)
        self.milliseconds = 0.0
        self.answered = 0
        self.failures: dict[str, int] = {}  # by kind of error


class RequestTimes:
    """Counts requests and how long they took, by what they have in common.

    Only one thread counts; any thread may look.
    """

    def __init__(self) -> None:
        self._times: dict[Key, _Times] = {}

    def count(self, key: Key, seconds: float, failure: str = "") -> None:
        """Count a request.

        Args:
            key: What it has in common with others.
            seconds: How long it took.
            failure: The kind of error that it ended with; "" if it was answered.
        """
        times = self._times.get(key)
        if times is None:
            times = self._times[key] = _Times()
        milliseconds = seconds * 1000
        times.counts[bisect_left(_LIMITS_MS, milliseconds)] += 1
        times.milliseconds += milliseconds
        if failure:
            times.failures[failure] = times.failures.get(failure, 0) + 1
        else:
            times.answered += 1

    def outcomes(self) -> Iterator[tuple[Key, int, dict[str, int]]]:
        """Return how many requests of each key were answered, and how many had which error."""
        for key, times in self._times.copy().items():
            yield key, times.answered, times.failures.copy()

    def totals(self) -> Iterator[tuple[Key, int]]:
        """Return how many requests have had each key."""
        for key, times in self._times.copy().items():
            yield key, sum(times.counts)

    def samples(self, tags_of: dict[Key, dict[str, str]]) -> list[Sample]:
        """Return a histogram of the keys that have tags."""
        found: list[Sample] = []
        for key, tags in tags_of.items():
            times = self._times[key]
            found += histogram_samples(tags, _LIMITS_MS, times.counts, times.milliseconds)
        return found


class IngressRequests:
    """Counts what is answered to clients in this process.

    Args:
        protocol: How they ask, "HTTP" or "gRPC".
    """

    def __init__(self, protocol: str) -> None:
        self.ongoing: int = 0
        self._protocol: str = protocol
        self._times: RequestTimes = RequestTimes()

    def count(self, answered: AnsweredRequest, seconds: float) -> None:
        """Count a request that was answered, after so many seconds."""
        self._times.count(answered, seconds)

    def families(self) -> Iterator[Family]:
        """Return what was counted."""
        requests, errors, errors_of_deployments = [], [], []
        tags_of: dict[Key, dict[str, str]] = {}
        for key, total in self._times.totals():
            one = AnsweredRequest(*key)
            where = {"route": one.route, "method": one.method, "application": one.application}
            tags_of[key] = {**where, "status_code": one.status}
            requests.append(Sample("_total", tags_of[key], total))
            if not one.is_error:
                continue
            error = {**where, "error_code": one.status}
            errors.append(Sample("_total", error, total))
            if one.deployment:
                tags = {**error, "deployment": one.deployment}
                errors_of_deployments.append(Sample("_total", tags, total))
        name, shown = self._protocol.lower(), self._protocol
        yield Family(f"serve_num_{name}_requests", "counter", f"{shown} requests.", requests)
        yield Family(
            f"serve_num_{name}_error_requests", "counter", f"{shown} requests that failed.", errors
        )
        yield Family(
            f"serve_num_deployment_{name}_error_requests",
            "counter",
            f"{shown} requests to deployments that failed.",
            errors_of_deployments,
        )
        yield Family(
            f"serve_{name}_request_latency_ms",
            "histogram",
            f"Milliseconds from the begin of a {shown} request to the end of its answer.",
            self._times.samples(tags_of),
        )
        ongoing = f"{shown} requests here."
        yield _number(f"serve_num_ongoing_{name}_requests", ongoing, {}, self.ongoing)


def of_replica(replica: Replica) -> Iterator[Family]:
    """Return what a replica has measured."""
    own = _tags_of(replica.id)
    answered, failed, tags_of = [], [], {}
    for key, count, failures in replica.times.outcomes():
        tags_of[key] = tags = {**own, "route": key[0]}
        if count:
            answered.append(Sample("_total", tags, count))
        for error, failed_count in failures.items():
            failed.append(Sample("_total", {**tags, "exception_type": error}, failed_count))
    yield Family(
        "serve_deployment_request_counter", "counter", "Requests that were answered.", answered
    )
    yield Family("serve_deployment_error_counter", "counter", "Requests that failed.", failed)
    yield Family(
        "serve_deployment_processing_latency_ms",
        "histogram",
        "Milliseconds that requests took.",
        replica.times.samples(tags_of),
    )
    yield _number("serve_replica_processing_queries", "Requests under way.", own, replica.ongoing)
    yield _number(
        "serve_deployment_replica_healthy",
        "Whether it takes requests.",
        own,
        replica.is_in_service,
    )
    waiting = "HTTP requests that wait for room here."
    yield _number("serve_deployment_queued_queries", waiting, own, replica.waiting)
    started = [Sample("_total", own, 1)]
    yield Family("serve_deployment_replica_starts", "counter", "How often it began.", started)


def of_router(router: Router) -> Iterator[Family]:
    """Return what a router has measured."""
    own = {"deployment": router.id.name, "application": router.id.app_name}
    counted = dict(router.assigned).items()
    sent = [Sample("_total", {**own, "route": route}, count) for route, count in counted]
    yield Family("serve_num_router_requests", "counter", "Requests of handles.", sent)
    yield _number(
        "serve_deployment_queued_queries",
        "Requests of handles that wait for a replica.",
        own,
        router.waiting(),
    )
    yield _number(
        "serve_num_ongoing_requests_at_replicas",
        "Requests of handles that are at replicas.",
        own,
        router.in_flight(),
    )


def of_applications(applications: Applications) -> Iterator[Family]:
    """Return how applications and deployments are doing, as numbers."""
    statuses, inner = [], []
    for name, found in applications.overview().items():
        number = _NUMBERS_OF_APPLICATIONS.get(found.status, 0)
        statuses.append(Sample("", {"application": name}, number))
        for deployment, one in found.deployments.items():
            tags = {"application": name, "deployment": deployment}
            inner.append(Sample("", tags, _NUMBERS_OF_DEPLOYMENTS.get(one.status, 0)))
    yield Family("serve_application_status", "gauge", "6: all is well.", statuses)
    yield Family("serve_deployment_status", "gauge", "6: all is well.", inner)


def of_models(models: LoadedModels) -> Iterator[Family]:
    """Return what was measured of models that are loaded when they are needed."""
    own = _tags_of(models.replica_id)
    loaded = models.ids
    yield _number("serve_num_multiplexed_models", "Models that are loaded.", own, len(loaded))
    present = [Sample("", {**own, "model_id": model_id}, 1) for model_id in loaded]
    yield Family("serve_registered_multiplexed_model_id", "gauge", "1 for each model.", present)
    asked = [Sample("_total", own, models.asked)]
    name = "serve_multiplexed_get_model_requests_counter"
    yield Family(name, "counter", "How often models were asked for.", asked)
    for verb, times in (("load", models.load_times), ("unload", models.unload_times)):
        counted = [Sample("_total", own, count) for _, count in times.totals()]
        name = f"serve_multiplexed_models_{verb}_counter"
        yield Family(name, "counter", f"How often a model was {verb}ed.", counted)
        took = times.samples({key: own for key, _ in times.totals()})
        name = f"serve_multiplexed_model_{verb}_latency_ms"
        yield Family(name, "histogram", f"Milliseconds that it took to {verb} a model.", took)


def _tags_of(id: ReplicaID) -> dict[str, str]:
    deployment, application = id.deployment_id.name, id.deployment_id.app_name
    return {"deployment": deployment, "replica": id.unique_id, "application": application}


def _number(name: str, description: str, tags: dict[str, str], value: float) -> Family:
    return Family(name, "gauge", description, [Sample("", tags, value)])
