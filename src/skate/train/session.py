"""What training loops and trials call, under Ray AIR's names."""

from __future__ import annotations

from typing import Any

from skate._run.session import (
    get_checkpoint,
    get_context,
    get_dataset_shard,
    report,
)
from skate._run.session import local_rank as get_local_rank
from skate._run.session import local_world_size as get_local_world_size
from skate._run.session import node_rank as get_node_rank
from skate._run.session import world_rank as get_world_rank
from skate._run.session import world_size as get_world_size

__all__ = [
    "get_checkpoint",
    "get_context",
    "get_dataset_shard",
    "get_experiment_name",
    "get_local_rank",
    "get_local_world_size",
    "get_node_rank",
    "get_trial_dir",
    "get_trial_id",
    "get_trial_name",
    "get_trial_resources",
    "get_world_rank",
    "get_world_size",
    "report",
]


def get_experiment_name() -> str:
    """Return the run's name."""
    return get_context().get_experiment_name()


def get_trial_name() -> str:
    """Return the name of this trial, or of the run."""
    return get_context().get_trial_name()


def get_trial_id() -> str:
    """Return what identifies this trial, or the run."""
    return get_context().get_trial_id()


def get_trial_resources() -> Any:
    """Return the resources of this trial, or of the run."""
    return get_context().get_trial_resources()


def get_trial_dir() -> str:
    """Return the folder of this trial, or of the run."""
    return get_context().get_trial_dir()
