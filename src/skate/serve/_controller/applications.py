"""Applications: which deployments belong together, and how they are doing."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from skate.serve._application import ApplicationSpec, DeploymentSpec
from skate.serve._controller.deployment import DeploymentState
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

    def deploy(self, spec: ApplicationSpec) -> None:
        """Add an application, or change one; deployments that it no longer has end."""
        self._check_prefix(spec)
        spec = spec._replace(deployments=tuple(map(self._following, spec.deployments)))
        self.specs[spec.name] = spec
        self.times[spec.name] = time.time()
        self.deleting.discard(spec.name)
        for part in spec.deployments:
            state = self.deployments.get(part.id)
            if state is None:
                self.deployments[part.id] = DeploymentState(part)
            else:
                state.set_target(part)
        kept = {part.id for part in spec.deployments}
        for id, state in self.deployments.items():
            if id.app_name == spec.name and id not in kept:
                state.delete()

    def _following(self, part: DeploymentSpec) -> DeploymentSpec:
        state = self.deployments.get(part.id)
        return part.following(None if state is None else state.spec)

    def _check_prefix(self, spec: ApplicationSpec) -> None:
        for other in self.specs.values():
            same = other.route_prefix == spec.route_prefix is not None
            if same and other.name != spec.name and other.name not in self.deleting:
                raise SkateServeError(
                    f"prefix {spec.route_prefix} is being used by application "
                    f"{other.name!r}: give application {spec.name!r} another one, with "
                    "serve.run(app, name=..., route_prefix=...)"
                )

    def delete(self, names: Iterable[str]) -> None:
        self.deleting.update(name for name in names if name in self.specs)
        self.go_on_deleting()

    def go_on_deleting(self) -> None:
        """First the deployment that takes requests, then those that it needs to finish them."""
        for name in self.deleting:
            parts = self.of(name)
            ingress = parts.get(self.specs[name].ingress)
            for state in parts.values():
                if not state.deleting and (ingress is state or ingress is None):
                    state.delete()

    def of(self, name: str) -> dict[str, DeploymentState]:
        """The deployments of an application, by their names."""
        return {id.name: state for id, state in self.deployments.items() if id.app_name == name}

    def tidy(self) -> list[DeploymentID]:
        """Forget what is deleted and gone; the deployments that are no more."""
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
        """Route prefix -> the deployment that answers there."""
        return {
            spec.route_prefix: DeploymentID(spec.ingress, spec.name)
            for spec in self.specs.values()
            if spec.route_prefix is not None and spec.name not in self.deleting
        }

    def answers_http(self, id: DeploymentID) -> bool:
        return id in self.routes().values()

    # -- how they are doing --------------------------------------------------------------------

    def overview(self) -> dict[str, ApplicationStatusOverview]:
        return {name: self._overview_of(name) for name in self.specs}

    def _overview_of(self, name: str) -> ApplicationStatusOverview:
        parts = self.of(name)
        status, message = self.status(name, parts)
        deployments = {part: _overview(state) for part, state in parts.items()}
        return ApplicationStatusOverview(status, message, self.times[name], deployments)

    def status(
        self, name: str, parts: Mapping[str, DeploymentState] | None = None
    ) -> tuple[ApplicationStatus, str]:
        """The status of an application and the reason for it."""
        if name not in self.specs:
            return ApplicationStatus.NOT_STARTED, ""
        if name in self.deleting:
            return ApplicationStatus.DELETING, ""
        parts = self.of(name) if parts is None else parts
        live = {part: state for part, state in parts.items() if not state.deleting}
        for status, meaning, text in _BY_SEVERITY:
            names = [part for part, state in live.items() if state.status == status]
            if names:
                details = "\n".join(live[part].message for part in names if live[part].message)
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


def _overview(state: DeploymentState) -> DeploymentStatusOverview:
    counts: dict[ReplicaState, int] = {}
    for record in state.replicas.values():
        counts[record.state] = counts.get(record.state, 0) + 1
    return DeploymentStatusOverview(state.status, state.trigger, counts, state.message)
