"""Applications: which deployments belong together, and how they are doing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from skate.serve._application.specs import ApplicationSpec, DeploymentSpec
from skate.serve._controller.deployment_state import DeploymentState
from skate.serve._identity import DeploymentID
from skate.serve._status import (
    ApplicationStatus,
    ApplicationStatusOverview,
    DeploymentStatus,
    DeploymentStatusOverview,
    ReplicaState,
)
from skate.serve.exceptions import SkateServeError


@dataclass
class Applications:
    """All targets. Pure state: the actor around it performs what the deployments decide."""

    specs: dict[str, ApplicationSpec] = field(default_factory=dict)
    deployments: dict[DeploymentID, DeploymentState] = field(default_factory=dict)
    times: dict[str, float] = field(default_factory=dict)
    deleting: set[str] = field(default_factory=set)
    failures: dict[str, str] = field(default_factory=dict)  # why there is nothing to deploy

    def fail(self, name: str, reason: str, moment: float) -> None:
        """Note that an application could not be made of what a config says; a former one stays."""
        self.failures[name] = reason
        self.times[name] = moment

    def deploy(self, spec: ApplicationSpec) -> None:
        """Add an application, or change one; deployments that it no longer has end."""
        self._check_prefix(spec)
        spec = spec._replace(deployments=tuple(map(self._following, spec.deployments)))
        self.specs[spec.name] = spec
        self.times[spec.name] = time.time()
        self.failures.pop(spec.name, None)
        self.deleting.discard(spec.name)
        for deployment in spec.deployments:
            state = self.deployments.get(deployment.id)
            if state is None:
                self.deployments[deployment.id] = DeploymentState(deployment)
            else:
                state.set_target(deployment)
        kept = {deployment.id for deployment in spec.deployments}
        for id, state in self.deployments.items():
            if id.app_name == spec.name and id not in kept:
                state.delete()

    def _following(self, deployment: DeploymentSpec) -> DeploymentSpec:
        state = self.deployments.get(deployment.id)
        return deployment.following(None if state is None else state.spec)

    def _check_prefix(self, spec: ApplicationSpec) -> None:
        for other in self.specs.values():
            same = other.route_prefix == spec.route_prefix is not None
            if same and other.name != spec.name and other.name not in self.deleting:
                raise SkateServeError(
                    f"Prefix {spec.route_prefix} is being used by application "
                    f'"{other.name}": give application {spec.name!r} another one, with '
                    "serve.run(app, name=..., route_prefix=...)"
                )

    def delete(self, names: Iterable[str]) -> None:
        """Begin to end these applications."""
        for name in names:
            failed = self.failures.pop(name, None) is not None
            if name in self.specs:
                self.deleting.add(name)
            elif failed:
                del self.times[name]
        self.go_on_deleting()

    def go_on_deleting(self) -> None:
        """End the deployment that takes requests, then those that it needs to finish them."""
        for name in self.deleting:
            deployments = self.of(name)
            ingress = deployments.get(self.specs[name].ingress)
            for state in deployments.values():
                if not state.deleting and (ingress is state or ingress is None):
                    state.delete()

    def of(self, name: str) -> dict[str, DeploymentState]:
        """Return the deployments of an application, by their names."""
        return {id.name: state for id, state in self.deployments.items() if id.app_name == name}

    def tidy(self) -> list[DeploymentID]:
        """Forget what is deleted and gone; return the deployments that are no more."""
        gone = [
            i for i, state in self.deployments.items() if state.deleting and not state.replicas
        ]
        for id in gone:
            del self.deployments[id]
        for name in [name for name in self.deleting if not self.of(name)]:
            self.deleting.discard(name)
            del self.specs[name], self.times[name]
        return gone

    def routes(self) -> dict[str, DeploymentID]:
        """Return route prefix -> the deployment that answers there."""
        return {
            spec.route_prefix: DeploymentID(spec.ingress, spec.name)
            for spec in self.specs.values()
            if spec.route_prefix is not None and spec.name not in self.deleting
        }

    def ingresses(self) -> dict[str, str]:
        """Return application -> the deployment that it is called by."""
        return {spec.name: spec.ingress for spec in self.specs.values()}

    def answers_http(self, id: DeploymentID) -> bool:
        """Return whether a deployment has a route."""
        return id in self.routes().values()

    # -- how they are doing --------------------------------------------------------------------

    def overview(
        self, delays: Mapping[DeploymentID, str] = MappingProxyType({})
    ) -> dict[str, ApplicationStatusOverview]:
        """Return how all applications are doing; `delays` says why replicas are late."""
        return {name: self._overview_of(name, delays) for name in {**self.specs, **self.failures}}

    def _overview_of(
        self, name: str, delays: Mapping[DeploymentID, str]
    ) -> ApplicationStatusOverview:
        states = self.of(name)
        status, message = self.status(name, states)
        overviews = {
            deployment: _overview(state, delays.get(state.id, ""))
            for deployment, state in states.items()
        }
        return ApplicationStatusOverview(status, message, self.times[name], overviews)

    def status(
        self, name: str, states: Mapping[str, DeploymentState] | None = None
    ) -> tuple[ApplicationStatus, str]:
        """Return the status of an application and the reason for it."""
        if name in self.failures:
            return ApplicationStatus.DEPLOY_FAILED, self.failures[name]
        if name not in self.specs:
            return ApplicationStatus.NOT_STARTED, ""
        if name in self.deleting:
            return ApplicationStatus.DELETING, ""
        states = self.of(name) if states is None else states
        live = {name: state for name, state in states.items() if not state.deleting}
        for status, meaning, text in _BY_SEVERITY:
            names = [name for name, state in live.items() if state.status == status]
            if names:
                details = "\n".join(live[name].message for name in names if live[name].message)
                return meaning, f"{text.format(names=names)}\n{details}".strip()
        return ApplicationStatus.RUNNING, ""


_BY_SEVERITY = (
    (
        DeploymentStatus.DEPLOY_FAILED,
        ApplicationStatus.DEPLOY_FAILED,
        "Failed to update the deployments {names}.",
    ),
    (
        DeploymentStatus.UNHEALTHY,
        ApplicationStatus.UNHEALTHY,
        "The deployments {names} are UNHEALTHY.",
    ),
    (DeploymentStatus.UPDATING, ApplicationStatus.DEPLOYING, ""),
)


def _overview(state: DeploymentState, delay: str) -> DeploymentStatusOverview:
    counts: dict[ReplicaState, int] = {}
    for record in state.replicas.values():
        counts[record.state] = counts.get(record.state, 0) + 1
    message = state.message or delay
    return DeploymentStatusOverview(state.status, state.trigger, counts, message)


def live_rows_of(applications: Applications) -> list[dict[str, object]]:
    """Return a row per deployment, for those who look in from outside."""
    return [
        {
            "application": name,
            "deployment": deployment,
            "state": found.status.value,
            "replicas": {state.value: count for state, count in found.replica_states.items()},
            "message": found.message,
        }
        for name, overview in applications.overview().items()
        for deployment, found in overview.deployments.items()
    ]
