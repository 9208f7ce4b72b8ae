"""How many replicas all deployments should have: by their load, or by policies of the user's.

reports of load ──┐
stats of replicas ┼─► Autoscaler of a deployment ─► its own policy, or the load ─► delays, limits
                  └─► all of an application ──────► the application's policy ────►
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from skate.serve._controller.autoscaling import Autoscaler, ScalingPolicy
from skate.serve._identity import DeploymentID, ReplicaID

if TYPE_CHECKING:
    from skate.serve._controller.applications import Applications
    from skate.serve._controller.deployment_state import DeploymentState
    from skate.serve.config import AutoscalingConfig, AutoscalingPolicy


class Scaling:
    """Decides for all deployments whose number of replicas is not fixed."""

    def __init__(self, apps: Applications) -> None:
        self._apps = apps
        self._scalers: dict[DeploymentID, Autoscaler] = {}
        self._policies: dict[str, ScalingPolicy] = {}  # of applications
        self.next_time: float | None = None  # to decide again although nothing was reported

    def report(self, id: DeploymentID, now: float, reporter: str, kind: str, value: float) -> bool:
        """Note a load; return whether it matters."""
        config = self._config(id)
        if config is not None:
            self._scaler(id).report(config, now, reporter, kind, value)
        return config is not None

    def record(self, replica: ReplicaID, now: float, stats: Mapping[str, float]) -> bool:
        """Note what the code of a replica has measured; return whether it matters."""
        config = self._config(replica.deployment_id)
        if config is not None:
            self._scaler(replica.deployment_id).record(config, now, replica, stats)
        return config is not None

    def forget(self, id: DeploymentID) -> None:
        """Forget a deployment that is gone."""
        self._scalers.pop(id, None)
        if id.app_name not in self._apps.specs:
            self._policies.pop(id.app_name, None)

    def step(self, now: float) -> bool:
        """Change how many replicas are wanted; return whether that was so."""
        changed, looks = False, []
        for name, spec in self._apps.specs.items():
            states = [state for state in self._apps.of(name).values() if not state.deleting]
            scaled = {
                state.spec.id: (state, state.spec.options.autoscaling)
                for state in states
                if state.spec.options.autoscaling is not None
            }
            wanted = self._by_application(name, spec.autoscaling_policy, scaled, now)
            for id, (state, config) in scaled.items():
                changed |= self._scale(state, config, now, wanted.get(id))
                looks.append(self._look(id, config, now, state, spec.autoscaling_policy))
        self.next_time = min((look for look in looks if look is not None), default=None)
        return changed

    def _scale(
        self, state: DeploymentState, config: AutoscalingConfig, now: float, desired: float | None
    ) -> bool:
        scaler = self._scaler(state.spec.id)
        if desired is None:
            desired = scaler.desired(config, now, state.wanted, _running(state))
        wanted = state.whole(scaler.settle(config, now, state.wanted, state.whole(desired)))
        if scaler.failure:
            state.message = scaler.failure
        if wanted == state.wanted:
            return False
        state.scale_to(wanted)
        return True

    def _by_application(
        self,
        name: str,
        given: AutoscalingPolicy | None,
        scaled: Mapping[DeploymentID, tuple[DeploymentState, AutoscalingConfig]],
        now: float,
    ) -> dict[DeploymentID, float]:
        """Return what the application's policy wants; nothing if it has none, or that fails."""
        if given is None or not scaled:
            return {}
        policy = self._policies.get(name)
        if policy is None or policy.given != given:
            policy = self._policies[name] = ScalingPolicy(given)
        contexts = {}
        for id, (state, config) in scaled.items():
            context = self._scaler(id).context(config, now, state.wanted, _running(state))
            context.policy_state = dict(policy.state.get(id, {}))
            contexts[id] = context
        numbers = policy.numbers(contexts)
        for id, (state, _) in scaled.items():
            if policy.failure:
                state.message = policy.failure
                numbers[id] = state.wanted
        return numbers

    def _look(
        self,
        id: DeploymentID,
        config: AutoscalingConfig,
        now: float,
        state: DeploymentState,
        given: AutoscalingPolicy | None,
    ) -> float | None:
        has_policy = given is not None or not config.policy.is_default_policy_function()
        return self._scaler(id).next_time(config, now, state.wanted, has_policy)

    def _scaler(self, id: DeploymentID) -> Autoscaler:
        return self._scalers.setdefault(id, Autoscaler(id))

    def _config(self, id: DeploymentID) -> AutoscalingConfig | None:
        state = self._apps.deployments.get(id)
        return None if state is None else state.spec.options.autoscaling


def _running(state: DeploymentState) -> list[Any]:
    return [record.id for record in state.replicas.values() if record.serves]
