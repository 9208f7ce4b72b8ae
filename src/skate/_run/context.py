"""Who and where a worker is."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from skate._run.scaling_config import ScalingConfig


@dataclass(frozen=True)
class SessionInfo:
    """What a worker of training, or a trial of tuning, knows about itself."""

    experiment_name: str = ""
    trial_name: str = ""
    trial_id: str = ""
    trial_dir: str = ""
    trial_resources: Any = None  # a PlacementGroupFactory, or the ScalingConfig of a training
    world_size: int = 1
    world_rank: int = 0
    local_rank: int = 0
    local_world_size: int = 1
    node_rank: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    storage: Any = None
    validates: bool = False  # checkpoints, where a report asks for it


class TrainContext:
    """Tell a training loop or a trial about its run; `get_context()` gives it.

    Args:
        info: What is known of the run.
    """

    def __init__(self, info: SessionInfo) -> None:
        self._info = info

    def get_experiment_name(self) -> str:
        """Return the run's name."""
        return self._info.experiment_name

    def get_world_size(self) -> int:
        """Return how many workers train together."""
        return self._info.world_size

    def get_world_rank(self) -> int:
        """Return this worker's number among all, from 0."""
        return self._info.world_rank

    def get_local_rank(self) -> int:
        """Return this worker's number among those on its machine, from 0."""
        return self._info.local_rank

    def get_local_world_size(self) -> int:
        """Return how many workers are on this machine."""
        return self._info.local_world_size

    def get_node_rank(self) -> int:
        """Return the number of this machine, from 0."""
        return self._info.node_rank

    def get_storage(self) -> Any:
        """Return the run's `Storage`: where its files go."""
        return self._info.storage

    def get_metadata(self) -> dict[str, Any]:
        """Return the `metadata` that the trainer was given."""
        return self._info.metadata

    def get_trial_name(self) -> str:
        """Return the trial's name; of a training, the run's."""
        return self._info.trial_name

    def get_trial_id(self) -> str:
        """Return what identifies the trial, or the run."""
        return self._info.trial_id

    def get_trial_resources(self) -> Any:
        """Return the resources of the whole run or trial, as a `tune.PlacementGroupFactory`; None
        where it has none of its own."""
        resources = self._info.trial_resources
        if isinstance(resources, ScalingConfig):
            return resources.as_placement_group_factory()
        return resources

    def get_trial_dir(self) -> str:
        """Return the run's folder, where its files and checkpoints go."""
        return self._info.trial_dir
