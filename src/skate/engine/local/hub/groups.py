"""Placement groups: bundles of resources, reserved together."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING

from skate.engine.local.hub.resources import Allocation, Demand, ResourcePool, from_units, to_units

if TYPE_CHECKING:
    from skate.engine.local.hub.workers import WorkerProcess


class HubGroup:
    """A placement group. Each bundle, once reserved, is a pool of its own."""

    def __init__(
        self,
        id: int,
        bundles: Sequence[Mapping[str, float]],
        strategy: str,
        name: str,
        maker: WorkerProcess | None = None,
    ) -> None:
        self.id = id
        self.maker = maker  # the process of the actor with which it ends, if that is killed
        self.bundles: list[dict[str, float]] = [dict(bundle) for bundle in bundles]
        self.demands: list[Demand] = [to_units(bundle) for bundle in bundles]
        self.strategy = strategy
        self.name = name
        self.state: str = "PENDING"
        self.problem: str | None = None  # why it can never be
        self._made = time.monotonic()
        self._tries = 0
        self._waited_seconds = 0.0  # before all was reserved
        self.pools: list[ResourcePool] = []
        self._allocations: list[Allocation] = []

    def whole_demand(self) -> dict[str, int]:
        total: dict[str, int] = {}
        for demand in self.demands:
            for name, amount in demand.items():
                total[name] = total.get(name, 0) + amount
        return total

    def why_impossible(self, machine: ResourcePool) -> str | None:
        """Tell why this machine can never hold the group, or None."""
        if machine.growing:
            return None
        if self.strategy == "STRICT_SPREAD" and len(self.demands) > 1:
            return (
                f"STRICT_SPREAD wants {len(self.demands)} machines and the local engine is one; "
                "use SPREAD, or the ray engine"
            )
        if not machine.could_ever_fit(self.whole_demand()):
            return f"the bundles {_counted(self.demands)} are more than this machine has"
        return None

    def reserve(self, machine: ResourcePool) -> bool:
        """Take all bundles, or none."""
        self._tries += 1
        taken: list[Allocation] = []
        for demand in self.demands:
            allocation = machine.take(demand)
            if allocation is None:
                for earlier in taken:
                    machine.give_back(earlier)
                return False
            taken.append(allocation)
        self._allocations = taken
        self.pools = [ResourcePool(a.demand, a.numbered) for a in taken]
        self.state = "CREATED"
        self._waited_seconds = time.monotonic() - self._made
        return True

    def give_back(self, machine: ResourcePool) -> None:
        for allocation in self._allocations:
            machine.give_back(allocation)
        self._allocations = []
        self.pools = []
        self.state = "REMOVED"

    def take(self, demand: Demand, bundle_index: int) -> Allocation | None:
        pools = self.pools if bundle_index < 0 else self.pools[bundle_index : bundle_index + 1]
        for pool in pools:
            allocation = pool.take(demand)
            if allocation is not None:
                return allocation
        return None

    def could_ever_fit(self, demand: Demand, bundle_index: int) -> bool:
        demands = self.demands if bundle_index < 0 else [self.demands[bundle_index]]
        return any(
            all(bundle.get(name, 0) >= amount for name, amount in demand.items())
            for bundle in demands
        )

    def describe(self, node_id: str) -> dict[str, object]:
        placed = node_id if self.state == "CREATED" else ""
        return {
            "placement_group_id": self.id.to_bytes(18, "big").hex(),
            "name": self.name,
            "bundles": dict(enumerate(self.bundles)),
            "bundles_to_node_id": dict.fromkeys(range(len(self.bundles)), placed),
            "strategy": self.strategy,
            "state": "PENDING" if self.state == "INFEASIBLE" else self.state,
            "stats": {
                "end_to_end_creation_latency_ms": 1000 * self._waited_seconds,
                "scheduling_latency_ms": 1000 * self._waited_seconds,
                "scheduling_attempt": self._tries,
                "highest_retry_delay_ms": 0.0,
                "scheduling_state": self._scheduling_state(),
            },
        }

    def _scheduling_state(self) -> str:
        return {"CREATED": "FINISHED", "INFEASIBLE": "INFEASIBLE"}.get(self.state, "QUEUED")


def _counted(demands: Sequence[Demand]) -> str:
    """Show equal neighbours once, and how many there are: `[50 x {'CPU': 1.0}]`."""
    runs = [(len(list(alike)), from_units(demand)) for demand, alike in groupby(demands)]
    texts = [f"{count} x {bundle}" if count > 1 else f"{bundle}" for count, bundle in runs]
    return f"[{', '.join(texts)}]"
