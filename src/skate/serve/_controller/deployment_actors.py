"""When the actors that replicas of a deployment share are no longer needed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from skate.serve._replica import deployment_actors

if TYPE_CHECKING:
    from skate.serve._controller.deployment_state import DeploymentState
    from skate.serve._identity import DeploymentID


class DeploymentActors:
    """Ends those of versions that have no replicas any more. Replicas start them."""

    def __init__(self) -> None:
        self._versions: dict[DeploymentID, set[str]] = {}

    def find(self) -> None:
        """Find those that were there before this controller."""
        for key in deployment_actors.find_all():
            self._versions.setdefault(key.deployment_id, set()).add(key.version)

    def step(self, states: Mapping[DeploymentID, DeploymentState]) -> None:
        """Note which versions have some, and end those that nobody needs."""
        for id, state in states.items():
            if state.spec.has_actors:
                self._versions.setdefault(id, set()).add(state.spec.version)
        for id, versions in list(self._versions.items()):
            for version in versions - _versions_in_use(states.get(id), versions):
                deployment_actors.end_version(id, version)
                versions.discard(version)
            if not versions:
                del self._versions[id]


def _versions_in_use(state: DeploymentState | None, known: set[str]) -> set[str]:
    if state is None:
        return set()
    versions = {record.version for record in state.replicas.values()}
    if "" in versions:  # of a replica that has not yet said what it is
        return known
    return versions if state.deleting else versions | {state.spec.version}
