"""Resources of a trial in the words of the time before placement groups."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field

from skate.tune.execution.placement_groups import (
    PlacementGroupFactory,
    resource_dict_to_pg_factory,
)


@dataclass(frozen=True)
class Resources:
    """Say what a trial needs, as `default_resource_request` may return it.

    That is what the trial itself needs, and what is `extra` for the tasks and actors that it
    starts.
    """

    cpu: float
    gpu: float
    memory: float = 0
    extra_cpu: float = 0
    extra_gpu: float = 0
    custom_resources: dict[str, float] = field(default_factory=dict)

    def as_placement_group_factory(self) -> PlacementGroupFactory:
        """Make the bundles that say the same in today's words."""
        return resource_dict_to_pg_factory({k: v for k, v in asdict(self).items() if v})
